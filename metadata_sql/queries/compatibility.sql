-- The number of the oldest schema whose servers can work with this one.
SELECT served_from FROM liststore_schema_compatibility
