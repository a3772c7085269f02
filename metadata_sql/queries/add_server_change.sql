-- Adds an entry to the audit trail of servers.
INSERT INTO server_history (revision, changed_at_ns, changed_by, on_behalf_of, action, target, before, after)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
