-- Deletes a version.
DELETE FROM list_feature_version WHERE entity_type = $1 AND name = $2 AND version = $3
