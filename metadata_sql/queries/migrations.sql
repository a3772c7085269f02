-- The migrations that have been applied.
SELECT version, checksum FROM liststore_schema_migration ORDER BY version
