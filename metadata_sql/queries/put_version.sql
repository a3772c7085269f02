-- Writes a version as it is to be.
INSERT INTO list_feature_version (
    entity_type, name, version, ttl_secs, ttl_max_secs, description, generation, created_at_ns, revision,
    max_items, identity, keep, index, bucket, timestamp_ahead_max_secs
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
ON CONFLICT (entity_type, name, version) DO UPDATE SET
    ttl_secs = excluded.ttl_secs,
    ttl_max_secs = excluded.ttl_max_secs,
    max_items = excluded.max_items,
    timestamp_ahead_max_secs = excluded.timestamp_ahead_max_secs,
    description = excluded.description,
    index = excluded.index,
    revision = excluded.revision
