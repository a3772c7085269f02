-- Writes a feature as it is to be.
INSERT INTO list_feature (
    entity_type, name, value_type, ttl_secs, ttl_max_secs, description, owner, labels,
    created_at_ns, updated_at_ns, revision, max_items, timestamp_ahead_max_secs
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
ON CONFLICT (entity_type, name) DO UPDATE SET
    ttl_secs = excluded.ttl_secs,
    ttl_max_secs = excluded.ttl_max_secs,
    max_items = excluded.max_items,
    timestamp_ahead_max_secs = excluded.timestamp_ahead_max_secs,
    description = excluded.description,
    owner = excluded.owner,
    labels = excluded.labels,
    updated_at_ns = excluded.updated_at_ns,
    revision = excluded.revision
