-- The audit trail of what servers do: their pools and logs, commands to jobs, and backups.

CREATE TABLE server_history (
    revision      bigint PRIMARY KEY CHECK (revision > 0),
    changed_at_ns bigint NOT NULL CHECK (changed_at_ns >= 0),
    changed_at    timestamptz NOT NULL GENERATED ALWAYS AS (to_timestamp(changed_at_ns / 1e9)) STORED,
    action        text COLLATE "C" NOT NULL,
    target        text COLLATE "C" NOT NULL,
    changed_by    text COLLATE "C" NOT NULL CHECK (char_length(changed_by) BETWEEN 1 AND 128),
    on_behalf_of  text COLLATE "C" CHECK (char_length(on_behalf_of) BETWEEN 1 AND 128),
    before        jsonb,
    after         jsonb,
    format        integer NOT NULL DEFAULT 1 CHECK (format > 0)
);

COMMENT ON TABLE server_history IS
    'The audit trail of servers: one row for each change of a pool or a log, each command to a job, and each backup. Rows are never changed. A server that does not know this table reads all definitions again after each row.';
COMMENT ON COLUMN server_history.revision IS
    'The number of the change: definitions, keys, erasures and servers share one count.';
COMMENT ON COLUMN server_history.changed_at_ns IS
    'When, in nanoseconds since the Unix epoch, by the clock of the server that noted the change.';
COMMENT ON COLUMN server_history.changed_at IS 'changed_at_ns for people, rounded to microseconds.';
COMMENT ON COLUMN server_history.action IS 'The kind of change, such as change_log.';
COMMENT ON COLUMN server_history.target IS 'The changed part: pool, log, backup, an entity type, or job: and the ID of a job.';
COMMENT ON COLUMN server_history.changed_by IS 'By whom, as in list_feature_history.';
COMMENT ON COLUMN server_history.on_behalf_of IS 'For whom, as in list_feature_history.';
COMMENT ON COLUMN server_history.before IS 'The state before the change; null where there was none.';
COMMENT ON COLUMN server_history.after IS 'The state after the change; null where there is none.';
COMMENT ON COLUMN server_history.format IS 'The form of before and after; 1 is the first.';
