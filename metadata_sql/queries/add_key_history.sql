-- Adds an entry to the audit trail of API keys.
INSERT INTO api_key_history (
    revision, changed_at_ns, changed_by, on_behalf_of, action, key_id, key_name, before, after
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
