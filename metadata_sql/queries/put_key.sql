-- Writes an API key as it is to be.
INSERT INTO api_key (id, record, revision) VALUES ($1, $2, $3)
ON CONFLICT (id) DO UPDATE SET record = excluded.record, revision = excluded.revision
