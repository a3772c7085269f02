-- The last generation of a version, if it ever existed.
SELECT last_generation
FROM list_feature_generation
WHERE entity_type = $1 AND name = $2 AND version = $3
