-- Turns away servers that know lists of items alone: they would add to sets as to those.
UPDATE liststore_schema_compatibility SET served_from = 7 WHERE served_from < 7
