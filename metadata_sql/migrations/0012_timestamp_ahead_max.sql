-- How far the timestamps of added items may be ahead of the server's clock.

ALTER TABLE list_feature
    ADD COLUMN timestamp_ahead_max_secs integer CHECK (timestamp_ahead_max_secs BETWEEN 0 AND 630720000);
ALTER TABLE list_feature_version
    ADD COLUMN timestamp_ahead_max_secs integer CHECK (timestamp_ahead_max_secs BETWEEN 0 AND 630720000);

COMMENT ON COLUMN list_feature.timestamp_ahead_max_secs IS
    'How many seconds the timestamp of an added item may be ahead of the server''s clock; 0 for any time. Null: as the setting items.timestamp_ahead_max of the server says. Of the default version, and the default for versions created later. Servers of before this column leave it as it is, and go by their setting.';
COMMENT ON COLUMN list_feature_version.timestamp_ahead_max_secs IS
    'How many seconds the timestamp of an item added to this version may be ahead of the server''s clock; 0 for any time. Null: as the setting of the server says.';
