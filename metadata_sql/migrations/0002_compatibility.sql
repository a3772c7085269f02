-- Which older servers can work with this schema, and in which form the audit trail tells of definitions.

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

ALTER TABLE list_feature_history ADD COLUMN format integer NOT NULL DEFAULT 1 CHECK (format > 0);

COMMENT ON COLUMN list_feature_history.format IS 'In which form before and after are written; 1 is the first.';
