-- Which features were changed after the revision $1, and how often. At most $2 of them.
SELECT entity_type, name, count(*) AS "changes!"
FROM list_feature_history
WHERE revision > $1
GROUP BY entity_type, name
LIMIT $2
