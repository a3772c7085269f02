-- Adds an entry to the audit trail.
INSERT INTO list_feature_history (
    revision, changed_at_ns, changed_by, on_behalf_of, action, entity_type, name, version, before, after
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
