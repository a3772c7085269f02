-- The control plane: definitions of list features and entity types, their generations, API keys, jobs, and the audit
-- trail of all changes.
--
-- Texts are compared byte by byte (collation "C"), on every server the same. Moments are kept in
-- nanoseconds since the Unix epoch, and shown beside that as timestamptz for people.

CREATE TABLE metadata_revision (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    revision bigint NOT NULL CHECK (revision >= 0)
);
INSERT INTO metadata_revision (revision) VALUES (0);

COMMENT ON TABLE metadata_revision IS
    'One row: the number of the last change. Every change locks the row, adds one, and commits together with what it changed, so that numbers become visible in their order. Servers ask for what changed since the number that they know.';
COMMENT ON COLUMN metadata_revision.only_row IS 'Always true: keeps the table at one row.';
COMMENT ON COLUMN metadata_revision.revision IS 'The number of the last change; 0 before the first.';

CREATE TABLE list_feature (
    entity_type text COLLATE "C" NOT NULL CHECK (entity_type ~ '^[A-Za-z0-9_.-]{1,128}$'),
    name        text COLLATE "C" NOT NULL CHECK (name ~ '^[A-Za-z0-9_.-]{0,128}$'),
    definition  jsonb NOT NULL
                CHECK (definition->>'entity_type' IS NOT DISTINCT FROM entity_type
                   AND definition->>'name' IS NOT DISTINCT FROM name),
    description text COLLATE "C" GENERATED ALWAYS AS (definition->>'description') STORED,
    owner       text COLLATE "C" GENERATED ALWAYS AS (definition->>'owner') STORED,
    PRIMARY KEY (entity_type, name),
    CHECK (jsonb_typeof(definition->'format') IS NOT DISTINCT FROM 'number'
       AND jsonb_typeof(definition->'versions') IS NOT DISTINCT FROM 'array'
       AND definition->'versions'->0 IS NOT NULL)
);

COMMENT ON TABLE list_feature IS
    'The list features that exist now. Change them through the HTTP API or the command line only: a change by hand leaves no history, and running servers do not see it. A deleted feature leaves this table; its history and its generations stay.';
COMMENT ON COLUMN list_feature.entity_type IS 'What the feature is a property of, such as user.';
COMMENT ON COLUMN list_feature.name IS
    'The feature''s name within its entity type, such as story_presented. Empty for the bags of the entity type: their definition is kept as that of a feature.';
COMMENT ON COLUMN list_feature.definition IS
    'The feature with all its versions. format is the number of the document''s format. Members are those of the HTTP API, and for each version: its generation (which creation of this entity type, name and version it is, from 1), and its index, if it is one of bags. ttl_max is the longest TTL that there ever was. revision is the number of the last change, and the entity tag (ETag) in the HTTP API.';
COMMENT ON COLUMN list_feature.description IS 'The description in the definition, which searches look through.';
COMMENT ON COLUMN list_feature.owner IS 'The owner in the definition, which searches look through.';

CREATE TABLE list_feature_generation (
    entity_type     text COLLATE "C" NOT NULL,
    name            text COLLATE "C" NOT NULL,
    version         text COLLATE "C" NOT NULL,
    last_generation bigint NOT NULL CHECK (last_generation > 0),
    PRIMARY KEY (entity_type, name, version)
);

COMMENT ON TABLE list_feature_generation IS
    'The last generation of every (entity type, name, version) that ever existed. Never delete a row: what is created again under that name would show old items.';
COMMENT ON COLUMN list_feature_generation.entity_type IS 'The feature''s entity type.';
COMMENT ON COLUMN list_feature_generation.name IS 'The feature''s name.';
COMMENT ON COLUMN list_feature_generation.version IS 'The version''s label; empty for the default version.';
COMMENT ON COLUMN list_feature_generation.last_generation IS 'How often it has been created so far.';

CREATE TABLE list_feature_history (
    revision      bigint PRIMARY KEY CHECK (revision > 0),
    changed_at_ns bigint NOT NULL CHECK (changed_at_ns >= 0),
    changed_at    timestamptz NOT NULL GENERATED ALWAYS AS (to_timestamp(changed_at_ns / 1e9)) STORED,
    changed_by    text COLLATE "C" NOT NULL CHECK (char_length(changed_by) BETWEEN 1 AND 128),
    on_behalf_of  text COLLATE "C" CHECK (char_length(on_behalf_of) BETWEEN 1 AND 128),
    action        text COLLATE "C" NOT NULL
                  CHECK (action IN ('create_feature', 'update_feature', 'delete_feature',
                                    'create_version', 'update_version', 'delete_version',
                                    'create_entity_type', 'update_entity_type', 'delete_entity_type',
                                    'create_index', 'update_index', 'delete_index')),
    entity_type   text COLLATE "C" NOT NULL,
    name          text COLLATE "C" NOT NULL,
    version       text COLLATE "C",
    before        jsonb,
    after         jsonb,
    format        integer NOT NULL DEFAULT 1 CHECK (format > 0)
);
CREATE INDEX list_feature_history_by_feature ON list_feature_history (entity_type, name, revision);

COMMENT ON TABLE list_feature_history IS
    'The audit trail: one row for every change, written in the same transaction. Servers also read from it what changed since they last looked. Rows are never changed.';
COMMENT ON COLUMN list_feature_history.revision IS 'The number of the change.';
COMMENT ON COLUMN list_feature_history.changed_at_ns IS
    'When, in nanoseconds since the Unix epoch, by the clock of the server that made the change.';
COMMENT ON COLUMN list_feature_history.changed_at IS 'changed_at_ns for people, rounded to microseconds.';
COMMENT ON COLUMN list_feature_history.changed_by IS
    'By whom: key: and the name of the API key that the request came with; local for the socket in the server''s data directory; or, from an open server, the Liststore-User header, or anonymous.';
COMMENT ON COLUMN list_feature_history.on_behalf_of IS
    'For whom, as the caller said in the Liststore-User header and nobody checked; null where nothing was said.';
COMMENT ON COLUMN list_feature_history.action IS 'What kind of change it was.';
COMMENT ON COLUMN list_feature_history.entity_type IS 'The entity type of the feature that was changed.';
COMMENT ON COLUMN list_feature_history.name IS
    'The name of the feature that was changed; empty for a change of an entity type with bags.';
COMMENT ON COLUMN list_feature_history.version IS
    'The version that was created, changed or deleted; null for a change of the feature itself.';
COMMENT ON COLUMN list_feature_history.before IS
    'The feature (or version) before the change, as the HTTP API showed it; null for a creation.';
COMMENT ON COLUMN list_feature_history.after IS
    'The feature (or version) after the change, as the HTTP API showed it; null for a deletion.';
COMMENT ON COLUMN list_feature_history.format IS 'The format of before and after.';

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
COMMENT ON COLUMN api_key_history.format IS 'The format of before and after.';

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
    'The audit trail of erasures of items: one row for each. Rows are never changed.';
COMMENT ON COLUMN erasure_history.revision IS 'The number of the change: definitions, keys and erasures share one count.';
COMMENT ON COLUMN erasure_history.changed_at_ns IS
    'When, in nanoseconds since the Unix epoch, by the clock of the server that erased.';
COMMENT ON COLUMN erasure_history.changed_at IS 'changed_at_ns for people, rounded to microseconds.';
COMMENT ON COLUMN erasure_history.action IS 'What kind of erasure it was.';
COMMENT ON COLUMN erasure_history.target IS 'What was erased, such as entity:user/u-123.';
COMMENT ON COLUMN erasure_history.changed_by IS 'By whom, as in list_feature_history.';
COMMENT ON COLUMN erasure_history.on_behalf_of IS 'For whom, as in list_feature_history.';
COMMENT ON COLUMN erasure_history.record IS 'The whole entry, with how far it went, and the number of its form.';

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
    'The audit trail of servers: one row for each change of a pool or a log, each command to a job, and each backup. Rows are never changed.';
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
COMMENT ON COLUMN server_history.format IS 'The format of before and after.';

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

CREATE TABLE liststore_schema_compatibility (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    served_from bigint NOT NULL CHECK (served_from > 0)
);
INSERT INTO liststore_schema_compatibility (served_from) VALUES (1);

COMMENT ON TABLE liststore_schema_compatibility IS
    'One row: the oldest servers that can work with this schema. A server of before the last migration asks here whether it may go on, as after a new release was taken back.';
COMMENT ON COLUMN liststore_schema_compatibility.only_row IS 'Always true: keeps the table at one row.';
COMMENT ON COLUMN liststore_schema_compatibility.served_from IS
    'A server works with this schema if the newest migration that it knows has this number or a higher one. A migration that older servers cannot work with raises it.';

COMMENT ON TABLE liststore_schema_migration IS
    'Which migrations have brought this schema to where it is. Written by liststore migrate.';
COMMENT ON COLUMN liststore_schema_migration.version IS 'The migration''s number.';
COMMENT ON COLUMN liststore_schema_migration.description IS 'What it brought.';
COMMENT ON COLUMN liststore_schema_migration.installed_on IS 'When it was applied.';
COMMENT ON COLUMN liststore_schema_migration.success IS 'Whether it was applied wholly; a migration that fails leaves no row.';
COMMENT ON COLUMN liststore_schema_migration.checksum IS 'The SHA-384 of its file, to recognise a changed one.';
COMMENT ON COLUMN liststore_schema_migration.execution_time IS 'How long it took, in nanoseconds.';
