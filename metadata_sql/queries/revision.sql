-- The number of the last change.
SELECT revision FROM metadata_revision
