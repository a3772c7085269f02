-- How many items of a list are shown, at most.

ALTER TABLE list_feature ADD COLUMN max_items integer CHECK (max_items BETWEEN 1 AND 100000);
ALTER TABLE list_feature_version ADD COLUMN max_items integer CHECK (max_items BETWEEN 1 AND 100000);

COMMENT ON COLUMN list_feature.max_items IS
    'How many items of a list are shown, at most: its newest. Null for all. Of the default version, and the default for versions created later. Servers of before this column leave it as it is, and show all.';
COMMENT ON COLUMN list_feature_version.max_items IS
    'How many items of a list of this version are shown, at most: its newest. Null for all.';
