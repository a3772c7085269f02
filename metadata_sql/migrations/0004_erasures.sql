-- The audit trail of what was erased on request.

CREATE TABLE erasure_history (
    revision      bigint PRIMARY KEY CHECK (revision > 0),
    changed_at_ns bigint NOT NULL CHECK (changed_at_ns >= 0),
    changed_at    timestamptz NOT NULL GENERATED ALWAYS AS (to_timestamp(changed_at_ns / 1e9)) STORED,
    action        text COLLATE "C" NOT NULL,
    target        text COLLATE "C" NOT NULL,
    changed_by    text COLLATE "C" NOT NULL CHECK (char_length(changed_by) BETWEEN 1 AND 128),
    on_behalf_of  text COLLATE "C" CHECK (char_length(on_behalf_of) BETWEEN 1 AND 128),
    record        jsonb NOT NULL CHECK (jsonb_typeof(record) = 'object')
);

COMMENT ON TABLE erasure_history IS
    'The audit trail of erasures of items: one row for each. Rows are never changed. What changed since a revision is told by these rows together with those of list_feature_history and api_key_history: a server that does not know this table reads all definitions again after each erasure.';
COMMENT ON COLUMN erasure_history.revision IS 'The number of the change: definitions, keys and erasures share one count.';
COMMENT ON COLUMN erasure_history.changed_at_ns IS
    'When, in nanoseconds since the Unix epoch, by the clock of the server that erased.';
COMMENT ON COLUMN erasure_history.changed_at IS 'changed_at_ns for people, rounded to microseconds.';
COMMENT ON COLUMN erasure_history.action IS 'What kind of erasure it was.';
COMMENT ON COLUMN erasure_history.target IS 'What was erased, such as entity:user/u-123.';
COMMENT ON COLUMN erasure_history.changed_by IS 'By whom, as in list_feature_history.';
COMMENT ON COLUMN erasure_history.on_behalf_of IS 'For whom, as in list_feature_history.';
COMMENT ON COLUMN erasure_history.record IS 'The whole entry, with how far it went, and the number of its form.';
