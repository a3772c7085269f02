-- Locks the revision until the transaction ends, and takes the next one. One change at a time
-- holds the lock, over all servers: revisions become visible in their order.
UPDATE metadata_revision SET revision = revision + 1 RETURNING revision
