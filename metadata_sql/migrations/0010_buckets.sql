-- The periods by which a store may cut a version's lists into partitions.

ALTER TABLE list_feature_version
    ADD COLUMN bucket text COLLATE "C" CHECK (bucket IN ('day', 'week', 'month', 'year')),
    ADD CHECK (bucket IS NULL OR identity = 'item');

COMMENT ON COLUMN list_feature_version.bucket IS
    'Of which period a partition of a list holds the items: day, week, month or year. Null where a list is one partition. It never changes. The first version with one turns servers away that know none.';
