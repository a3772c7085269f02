-- API keys, the audit trail of their changes, and on whose behalf changes were made.

ALTER TABLE list_feature_history
    ADD COLUMN on_behalf_of text COLLATE "C" CHECK (char_length(on_behalf_of) BETWEEN 1 AND 128);

COMMENT ON COLUMN list_feature_history.changed_by IS
    'By whom: key: and the name of the API key that the request came with; local for the socket in the server''s data directory; or, from an open server, the Liststore-User header, or anonymous.';
COMMENT ON COLUMN list_feature_history.on_behalf_of IS
    'For whom, as the caller said in the Liststore-User header and nobody checked; null where nothing was said.';

CREATE TABLE api_key (
    id              text COLLATE "C" PRIMARY KEY CHECK (id ~ '^[0-9a-z]{12}$'),
    record          jsonb NOT NULL CHECK (jsonb_typeof(record) = 'object'),
    last_used_at_ns bigint CHECK (last_used_at_ns >= 0),
    last_used_at    timestamptz GENERATED ALWAYS AS (to_timestamp(last_used_at_ns / 1e9)) STORED,
    revision        bigint NOT NULL CHECK (revision > 0)
);

COMMENT ON TABLE api_key IS
    'The API keys, revoked ones too. A row is never deleted: as long as there is one, servers ask for keys. Change keys through the HTTP API or the command line only.';
COMMENT ON COLUMN api_key.id IS 'The public part of the key, as it stands in logs.';
COMMENT ON COLUMN api_key.record IS
    'The key: name, roles, scopes, when it was made, rotated and revoked and when it expires (in nanoseconds since the Unix epoch), and the HMAC-SHA-256 of its secret. No secret can be read from it.';
COMMENT ON COLUMN api_key.last_used_at_ns IS
    'When it was last used, to the hour, in nanoseconds since the Unix epoch; servers write it a few times an hour at most.';
COMMENT ON COLUMN api_key.last_used_at IS 'last_used_at_ns for people.';
COMMENT ON COLUMN api_key.revision IS 'The number of the last change to it.';

CREATE TABLE api_key_history (
    revision      bigint PRIMARY KEY CHECK (revision > 0),
    changed_at_ns bigint NOT NULL CHECK (changed_at_ns >= 0),
    changed_at    timestamptz NOT NULL GENERATED ALWAYS AS (to_timestamp(changed_at_ns / 1e9)) STORED,
    changed_by    text COLLATE "C" NOT NULL CHECK (char_length(changed_by) BETWEEN 1 AND 128),
    on_behalf_of  text COLLATE "C" CHECK (char_length(on_behalf_of) BETWEEN 1 AND 128),
    action        text COLLATE "C" NOT NULL CHECK (action IN ('create_key', 'rotate_key', 'revoke_key')),
    key_id        text COLLATE "C" NOT NULL,
    key_name      text COLLATE "C" NOT NULL,
    before        jsonb,
    after         jsonb,
    format        integer NOT NULL DEFAULT 1 CHECK (format > 0)
);

COMMENT ON TABLE api_key_history IS
    'The audit trail of API keys: one row for every change, written in the same transaction. Rows are never changed.';
COMMENT ON COLUMN api_key_history.revision IS 'The number of the change: definitions and keys share one count.';
COMMENT ON COLUMN api_key_history.changed_at_ns IS
    'When, in nanoseconds since the Unix epoch, by the clock of the server that made the change.';
COMMENT ON COLUMN api_key_history.changed_at IS 'changed_at_ns for people, rounded to microseconds.';
COMMENT ON COLUMN api_key_history.changed_by IS 'By whom, as in list_feature_history.';
COMMENT ON COLUMN api_key_history.on_behalf_of IS 'For whom, as in list_feature_history.';
COMMENT ON COLUMN api_key_history.action IS 'What kind of change it was.';
COMMENT ON COLUMN api_key_history.key_id IS 'The public part of the key that was changed.';
COMMENT ON COLUMN api_key_history.key_name IS 'Its name.';
COMMENT ON COLUMN api_key_history.before IS 'The key before the change, without its hashes; null for a creation.';
COMMENT ON COLUMN api_key_history.after IS 'The key after the change, without its hashes.';
COMMENT ON COLUMN api_key_history.format IS 'In which form before and after are written; 1 is the first.';
