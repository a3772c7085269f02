-- Remembers the generation that a creation began.
INSERT INTO list_feature_generation (entity_type, name, version, last_generation)
VALUES ($1, $2, $3, $4)
ON CONFLICT (entity_type, name, version) DO UPDATE SET last_generation = excluded.last_generation
