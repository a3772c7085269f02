-- Tells all servers, when the transaction commits, that there is a new revision.
SELECT pg_notify('liststore_metadata', $1)
