-- All API keys, revoked ones too, in the order of their ids.
SELECT id, record, last_used_at_ns, revision FROM api_key ORDER BY id
