-- Turns away servers that do not know keys: they would serve everybody.
UPDATE liststore_schema_compatibility SET served_from = 3 WHERE served_from < 3
