-- One feature.
SELECT
    f.entity_type AS "entity_type!",
    f.name AS "name!",
    f.definition::text AS "definition!"
FROM list_feature f
WHERE entity_type = $1 AND name = $2
