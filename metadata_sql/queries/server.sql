-- What is on the other end, and whether a migration was ever made there.
SELECT
    current_database() AS "database!",
    current_setting('server_version') AS "server_version!",
    current_setting('server_version_num')::integer AS "server_version_number!",
    current_setting('server_encoding') AS "encoding!",
    to_regclass('liststore_schema_migration') IS NOT NULL AS "has_migrations!",
    to_regclass('liststore_schema_compatibility') IS NOT NULL AS "has_compatibility!",
    (SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl) AS "tls_version?"
