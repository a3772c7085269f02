-- What tells the items of a version's lists from each other.

ALTER TABLE list_feature_version
    ADD COLUMN identity text COLLATE "C" NOT NULL DEFAULT 'item' CHECK (identity IN ('item', 'value', 'key')),
    ADD COLUMN keep text COLLATE "C" CHECK (keep IN ('newest', 'oldest')),
    ADD CHECK ((identity = 'item') = (keep IS NULL));

COMMENT ON COLUMN list_feature_version.identity IS
    'What tells its items from each other: item (timestamp and value), value, or key. It never changes. The first version with another one than item turns servers away that know item alone.';
COMMENT ON COLUMN list_feature_version.keep IS
    'Which item of a value or key stays: newest or oldest. Null where the identity is item.';
