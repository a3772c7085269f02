-- Definitions of list features, their generations, and the audit trail of their changes.
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
    entity_type   text COLLATE "C" NOT NULL CHECK (entity_type ~ '^[A-Za-z0-9_.-]{1,128}$'),
    name          text COLLATE "C" NOT NULL CHECK (name ~ '^[A-Za-z0-9_.-]{1,128}$'),
    value_type    text COLLATE "C" NOT NULL
                  CHECK (value_type IN ('string', 'int64', 'double', 'bool', 'bytes', 'json')),
    ttl_secs      integer NOT NULL CHECK (ttl_secs BETWEEN 1 AND 630720000),
    description   text COLLATE "C" NOT NULL CHECK (char_length(description) <= 2000),
    owner         text COLLATE "C" NOT NULL CHECK (char_length(owner) <= 200),
    labels        jsonb NOT NULL CHECK (jsonb_typeof(labels) = 'object'),
    ttl_max_secs  integer NOT NULL CHECK (ttl_max_secs BETWEEN ttl_secs AND 630720000),
    created_at_ns bigint NOT NULL CHECK (created_at_ns >= 0),
    updated_at_ns bigint NOT NULL CHECK (updated_at_ns >= 0),
    created_at    timestamptz NOT NULL GENERATED ALWAYS AS (to_timestamp(created_at_ns / 1e9)) STORED,
    updated_at    timestamptz NOT NULL GENERATED ALWAYS AS (to_timestamp(updated_at_ns / 1e9)) STORED,
    revision      bigint NOT NULL CHECK (revision > 0),
    PRIMARY KEY (entity_type, name)
);

COMMENT ON TABLE list_feature IS
    'The list features that exist now. Change them through the HTTP API or the command line only: a change by hand leaves no history, and running servers do not see it. A deleted feature leaves this table; its history and its generations stay.';
COMMENT ON COLUMN list_feature.entity_type IS 'What the feature is a property of, such as user.';
COMMENT ON COLUMN list_feature.name IS 'The feature''s name within its entity type, such as story_presented.';
COMMENT ON COLUMN list_feature.value_type IS 'The type of the values in its lists. It never changes: stored bytes are read by it.';
COMMENT ON COLUMN list_feature.ttl_secs IS
    'How long an item is visible after its timestamp, in seconds: for the default version, and for versions created later without a TTL of their own. At most 20 years.';
COMMENT ON COLUMN list_feature.description IS 'What the feature is for; free text, may be empty.';
COMMENT ON COLUMN list_feature.owner IS 'Who answers for it; free text, may be empty.';
COMMENT ON COLUMN list_feature.labels IS 'A JSON object of texts: at most 64, keys of 1 to 63 characters, values of up to 255.';
COMMENT ON COLUMN list_feature.ttl_max_secs IS
    'The longest TTL that any of its versions ever had, in seconds, deleted versions too: says when the last items of a deleted feature expire.';
COMMENT ON COLUMN list_feature.created_at_ns IS 'When it was created, in nanoseconds since the Unix epoch.';
COMMENT ON COLUMN list_feature.updated_at_ns IS
    'When it or one of its versions was last changed, in nanoseconds since the Unix epoch.';
COMMENT ON COLUMN list_feature.created_at IS 'created_at_ns for people, rounded to microseconds.';
COMMENT ON COLUMN list_feature.updated_at IS 'updated_at_ns for people, rounded to microseconds.';
COMMENT ON COLUMN list_feature.revision IS
    'The number of the last change to it or to its versions: its entity tag (ETag) in the HTTP API.';

CREATE TABLE list_feature_version (
    entity_type   text COLLATE "C" NOT NULL,
    name          text COLLATE "C" NOT NULL,
    version       text COLLATE "C" NOT NULL CHECK (version ~ '^[A-Za-z0-9_./:-]{0,64}$'),
    ttl_secs      integer NOT NULL CHECK (ttl_secs BETWEEN 1 AND 630720000),
    description   text COLLATE "C" NOT NULL CHECK (char_length(description) <= 2000),
    generation    bigint NOT NULL CHECK (generation > 0),
    ttl_max_secs  integer NOT NULL CHECK (ttl_max_secs BETWEEN ttl_secs AND 630720000),
    created_at_ns bigint NOT NULL CHECK (created_at_ns >= 0),
    created_at    timestamptz NOT NULL GENERATED ALWAYS AS (to_timestamp(created_at_ns / 1e9)) STORED,
    revision      bigint NOT NULL CHECK (revision > 0),
    PRIMARY KEY (entity_type, name, version),
    FOREIGN KEY (entity_type, name) REFERENCES list_feature ON DELETE CASCADE
);

COMMENT ON TABLE list_feature_version IS
    'The versions of each list feature; each has lists of its own. Every feature has a default version, whose label is empty.';
COMMENT ON COLUMN list_feature_version.entity_type IS 'The feature''s entity type.';
COMMENT ON COLUMN list_feature_version.name IS 'The feature''s name.';
COMMENT ON COLUMN list_feature_version.version IS 'The version''s label; empty for the default version.';
COMMENT ON COLUMN list_feature_version.ttl_secs IS
    'How long an item of this version is visible after its timestamp, in seconds.';
COMMENT ON COLUMN list_feature_version.description IS 'What the version is for; free text, may be empty.';
COMMENT ON COLUMN list_feature_version.generation IS
    'Which creation of this (entity type, name, version) this is, from 1. From 2 on it is part of the key under which the items are stored (entity_type#name|version~generation), so that what is created again starts with empty lists.';
COMMENT ON COLUMN list_feature_version.ttl_max_secs IS 'The longest TTL that this creation of the version ever had, in seconds.';
COMMENT ON COLUMN list_feature_version.created_at_ns IS 'When it was created, in nanoseconds since the Unix epoch.';
COMMENT ON COLUMN list_feature_version.created_at IS 'created_at_ns for people, rounded to microseconds.';
COMMENT ON COLUMN list_feature_version.revision IS
    'The number of the last change to it: its entity tag (ETag) in the HTTP API.';

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
    action        text COLLATE "C" NOT NULL
                  CHECK (action IN ('create_feature', 'update_feature', 'delete_feature',
                                    'create_version', 'update_version', 'delete_version')),
    entity_type   text COLLATE "C" NOT NULL,
    name          text COLLATE "C" NOT NULL,
    version       text COLLATE "C",
    before        jsonb,
    after         jsonb
);
CREATE INDEX list_feature_history_by_feature ON list_feature_history (entity_type, name, revision);

COMMENT ON TABLE list_feature_history IS
    'The audit trail: one row for every change, written in the same transaction. Servers also read from it what changed since they last looked. Rows are never changed.';
COMMENT ON COLUMN list_feature_history.revision IS 'The number of the change.';
COMMENT ON COLUMN list_feature_history.changed_at_ns IS
    'When, in nanoseconds since the Unix epoch, by the clock of the server that made the change.';
COMMENT ON COLUMN list_feature_history.changed_at IS 'changed_at_ns for people, rounded to microseconds.';
COMMENT ON COLUMN list_feature_history.changed_by IS 'By whom: the Liststore-User header of the request, or anonymous.';
COMMENT ON COLUMN list_feature_history.action IS 'What kind of change it was.';
COMMENT ON COLUMN list_feature_history.entity_type IS 'The entity type of the feature that was changed.';
COMMENT ON COLUMN list_feature_history.name IS 'The name of the feature that was changed.';
COMMENT ON COLUMN list_feature_history.version IS
    'The version that was created, changed or deleted; null for a change of the feature itself.';
COMMENT ON COLUMN list_feature_history.before IS
    'The feature (or version) before the change, as the HTTP API showed it; null for a creation.';
COMMENT ON COLUMN list_feature_history.after IS
    'The feature (or version) after the change, as the HTTP API showed it; null for a deletion.';

COMMENT ON TABLE liststore_schema_migration IS
    'Which migrations have brought this schema to where it is. Written by liststore migrate.';
COMMENT ON COLUMN liststore_schema_migration.version IS 'The migration''s number.';
COMMENT ON COLUMN liststore_schema_migration.description IS 'What it brought.';
COMMENT ON COLUMN liststore_schema_migration.installed_on IS 'When it was applied.';
COMMENT ON COLUMN liststore_schema_migration.success IS 'Whether it was applied wholly; a migration that fails leaves no row.';
COMMENT ON COLUMN liststore_schema_migration.checksum IS 'The SHA-384 of its file, to recognise a changed one.';
COMMENT ON COLUMN liststore_schema_migration.execution_time IS 'How long it took, in nanoseconds.';
