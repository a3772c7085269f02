-- Every version that a feature of the entity type $1 has or ever had, with its last generation.
SELECT name, version, last_generation
FROM list_feature_generation
WHERE entity_type = $1
ORDER BY name, version
