-- Work in the background that outlives a restart.

CREATE TABLE job (
    id     text COLLATE "C" PRIMARY KEY CHECK (id ~ '^[0-9a-f]{32}$'),
    number bigint NOT NULL CHECK (number > 0),
    record jsonb NOT NULL CHECK (jsonb_typeof(record) = 'object')
);

COMMENT ON TABLE job IS
    'Purges and how far they are. Change jobs through the HTTP API or the command line only.';
COMMENT ON COLUMN job.id IS 'What the job is known by.';
COMMENT ON COLUMN job.number IS
    'The number of its present state. A state takes the place of the one before it alone: so one server works on a job.';
COMMENT ON COLUMN job.record IS 'The job: what is to be done, how far it is, by whom it was asked for and who works on it.';
