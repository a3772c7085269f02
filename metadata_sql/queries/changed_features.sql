-- The features that exist of those changed after the revision $1.
SELECT
    f.entity_type AS "entity_type!",
    f.name AS "name!",
    f.definition::text AS "definition!"
FROM (SELECT DISTINCT entity_type, name FROM list_feature_history WHERE revision > $1) changed
JOIN list_feature f USING (entity_type, name)
ORDER BY f.entity_type, f.name
