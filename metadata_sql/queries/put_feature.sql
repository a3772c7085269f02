-- Writes a feature as it is to be.
INSERT INTO list_feature (entity_type, name, definition) VALUES ($1, $2, $3::text::jsonb)
ON CONFLICT (entity_type, name) DO UPDATE SET definition = excluded.definition
