-- Indexes of property bags: versions of a type's bags, whose lists hold the entries.

ALTER TABLE list_feature_version ADD COLUMN index jsonb;

COMMENT ON COLUMN list_feature_version.index IS
    'Of a version of bags: {"properties": [JSON Pointers], "order_by": JSON Pointer, if any, "ready": whether all bags are in it}. Null of all others.';
