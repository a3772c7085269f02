-- Turns away servers that know no buckets: they would look for a list in one partition.
UPDATE liststore_schema_compatibility SET served_from = 10 WHERE served_from < 10
