-- All features.
SELECT
    f.entity_type AS "entity_type!",
    f.name AS "name!",
    f.definition::text AS "definition!"
FROM list_feature f
ORDER BY f.entity_type, f.name
