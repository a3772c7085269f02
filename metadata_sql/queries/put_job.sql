-- Keeps the state $2 of a job in the place of the one before it; the first one where there is no job of that id.
INSERT INTO job (id, number, record)
SELECT $1::text, $2::bigint, $3::jsonb
WHERE $2 = 1 OR EXISTS (SELECT FROM job WHERE id = $1)
ON CONFLICT (id) DO UPDATE SET number = excluded.number, record = excluded.record
WHERE job.number = excluded.number - 1
