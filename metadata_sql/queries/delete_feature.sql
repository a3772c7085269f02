-- Deletes a feature with all its versions.
DELETE FROM list_feature WHERE entity_type = $1 AND name = $2
