-- Adds an entry to the audit trail of erasures.
INSERT INTO erasure_history (revision, changed_at_ns, changed_by, on_behalf_of, action, target, record)
VALUES ($1, $2, $3, $4, $5, $6, $7)
