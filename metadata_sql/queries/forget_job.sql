-- Forgets a job.
DELETE FROM job WHERE id = $1
