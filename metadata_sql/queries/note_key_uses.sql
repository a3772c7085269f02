-- Notes when keys were last used: $1 their ids, $2 the moments. Never goes back.
UPDATE api_key
SET last_used_at_ns = used.at_ns
FROM unnest($1::text[], $2::bigint[]) AS used (id, at_ns)
WHERE api_key.id = used.id AND coalesce(api_key.last_used_at_ns, 0) < used.at_ns
