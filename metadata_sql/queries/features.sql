-- A page of features, a row for each of their versions. $1: entity type or null. $2: part of a
-- text in lower case or null; only ASCII letters are folded, since the columns' collation is "C",
-- and position() knows no wildcards. $3 and $4: the feature that the page follows, or nulls.
-- $5: how many features. $6: whether these are entity types, whose name is that of the entity type.
WITH f AS (
    SELECT *
    FROM list_feature
    WHERE ($1::text IS NULL OR entity_type = $1)
        AND (
            $2::text IS NULL
            OR position($2 IN lower(CASE WHEN name = '' THEN entity_type ELSE name END)) > 0
            OR position($2 IN lower(description)) > 0
            OR position($2 IN lower(owner)) > 0
        )
        AND (name = '') = $6
        AND ($3::text IS NULL OR (entity_type, name) > ($3, $4::text))
    ORDER BY entity_type, name
    LIMIT $5
)
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
FROM f
LEFT JOIN list_feature_version v USING (entity_type, name)
ORDER BY f.entity_type, f.name, v.version
