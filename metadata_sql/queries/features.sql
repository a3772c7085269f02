-- A page of features. $1: entity type or null. $2: part of a text in lower case or null; only ASCII letters are folded,
-- since the columns' collation is "C", and position() knows no wildcards. $3 and $4: the feature that the page follows,
-- or nulls. $5: how many features. $6: whether these are entity types, whose name is that of the entity type.
SELECT
    f.entity_type AS "entity_type!",
    f.name AS "name!",
    f.definition::text AS "definition!"
FROM list_feature f
WHERE ($1::text IS NULL OR entity_type = $1)
    AND (
        $2::text IS NULL
        OR position($2 IN lower(CASE WHEN name = '' THEN entity_type ELSE name END)) > 0
        OR position($2 IN lower(description)) > 0
        OR position($2 IN lower(owner)) > 0
    )
    AND (name = '') = $6
    AND ($3::text IS NULL OR (entity_type, name) > ($3, $4::text))
ORDER BY f.entity_type, f.name
LIMIT $5
