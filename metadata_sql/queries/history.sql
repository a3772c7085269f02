-- A page of the history of a name, newest first, before the revision $3; at most $4 entries.
SELECT revision, changed_at_ns, changed_by, on_behalf_of, action, version, before, after
FROM list_feature_history
WHERE entity_type = $1 AND name = $2 AND revision < $3
ORDER BY revision DESC
LIMIT $4
