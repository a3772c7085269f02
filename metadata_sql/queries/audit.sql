-- A page of the audit trail of definitions, API keys, erasures and servers, newest first, before the revision $1 and from
-- $8 on: of changes by or on behalf of $2, of what $3 names (entity_type.name, an entity type, key: and a name, what was
-- erased, or a part of a server), of the action $4, from $5 to $6, each of these or null; at most $7 entries.
SELECT
    revision AS "revision!",
    changed_at_ns AS "changed_at_ns!",
    changed_by AS "changed_by!",
    on_behalf_of AS "on_behalf_of?",
    action AS "action!",
    entity_type AS "entity_type?",
    name AS "name!",
    version AS "version?",
    key_id AS "key_id?",
    before AS "before?",
    after AS "after?",
    erasure AS "erasure?"
FROM (
    SELECT
        revision, changed_at_ns, changed_by, on_behalf_of, action, entity_type, name, version,
        NULL::text AS key_id, before, after, NULL::jsonb AS erasure
    FROM list_feature_history
    UNION ALL
    SELECT
        revision, changed_at_ns, changed_by, on_behalf_of, action, NULL, key_name, NULL,
        key_id, before, after, NULL
    FROM api_key_history
    UNION ALL
    SELECT
        revision, changed_at_ns, changed_by, on_behalf_of, action, NULL, target, NULL,
        NULL, NULL, NULL, record
    FROM erasure_history
    UNION ALL
    SELECT
        revision, changed_at_ns, changed_by, on_behalf_of, action, NULL, target, NULL,
        NULL, before, after, NULL
    FROM server_history
) AS entry
WHERE revision < $1
    AND revision >= $8
    AND ($2::text IS NULL OR changed_by = $2 OR on_behalf_of = $2)
    AND (
        $3::text IS NULL
        OR $3 = CASE
            WHEN key_id IS NOT NULL THEN 'key:' || name
            WHEN entity_type IS NULL THEN name
            WHEN name = '' THEN entity_type
            ELSE entity_type || '.' || name
        END
    )
    AND ($4::text IS NULL OR action = $4)
    AND ($5::bigint IS NULL OR changed_at_ns >= $5)
    AND ($6::bigint IS NULL OR changed_at_ns <= $6)
ORDER BY revision DESC
LIMIT $7
