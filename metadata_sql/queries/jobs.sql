-- All jobs, in the order of their creation.
SELECT id, number, record FROM job ORDER BY id
