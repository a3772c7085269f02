-- Turns away servers that do not know bags: a feature without a name makes no sense to them.
UPDATE liststore_schema_compatibility SET served_from = 8 WHERE served_from < 8
