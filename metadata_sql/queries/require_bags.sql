-- Turns away servers that do not know bags, or not their indexes: a feature without a name makes no sense to them, or
-- they would write bags without entries.
UPDATE liststore_schema_compatibility SET served_from = 9 WHERE served_from < 9
