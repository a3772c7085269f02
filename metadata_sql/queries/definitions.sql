-- All features, a row for each of their versions.
SELECT
    f.entity_type AS "entity_type!",
    f.name AS "name!",
    f.value_type AS "value_type!",
    f.ttl_secs AS "ttl_secs!",
    f.max_items AS "max_items?",
    f.timestamp_ahead_max_secs AS "timestamp_ahead_max_secs?",
    f.ttl_max_secs AS "ttl_max_secs!",
    f.description AS "description!",
    f.owner AS "owner!",
    f.labels AS "labels!",
    f.created_at_ns AS "created_at_ns!",
    f.updated_at_ns AS "updated_at_ns!",
    f.revision AS "revision!",
    v.version AS "version?",
    v.ttl_secs AS "version_ttl_secs?",
    v.max_items AS "version_max_items?",
    v.timestamp_ahead_max_secs AS "version_timestamp_ahead_max_secs?",
    v.ttl_max_secs AS "version_ttl_max_secs?",
    v.description AS "version_description?",
    v.generation AS "version_generation?",
    v.created_at_ns AS "version_created_at_ns?",
    v.revision AS "version_revision?",
    v.identity AS "version_identity?",
    v.keep AS "version_keep?",
    v.bucket AS "version_bucket?",
    v.index AS "version_index?"
FROM list_feature f
LEFT JOIN list_feature_version v USING (entity_type, name)
ORDER BY f.entity_type, f.name, v.version
