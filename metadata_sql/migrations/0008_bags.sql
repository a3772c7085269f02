-- Entity types whose entities have bags: each is defined as a feature whose name is empty.

ALTER TABLE list_feature
    DROP CONSTRAINT list_feature_name_check,
    ADD CONSTRAINT list_feature_name_check CHECK (name ~ '^[A-Za-z0-9_.-]{0,128}$');
ALTER TABLE list_feature_history
    DROP CONSTRAINT list_feature_history_action_check,
    ADD CONSTRAINT list_feature_history_action_check
        CHECK (action IN ('create_feature', 'update_feature', 'delete_feature',
                          'create_version', 'update_version', 'delete_version',
                          'create_entity_type', 'update_entity_type', 'delete_entity_type'));

COMMENT ON COLUMN list_feature.name IS
    'The feature''s name within its entity type, such as story_presented. Empty for the bags of the entity type: their definition is kept as that of a feature. The first of these turns servers away that do not know bags.';
COMMENT ON COLUMN list_feature_history.name IS
    'The name of the feature that was changed; empty for a change of an entity type with bags.';
