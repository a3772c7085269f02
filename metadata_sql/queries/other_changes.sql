-- How many changes of anything but definitions there were after the revision $1.
SELECT
    (SELECT count(*) FROM api_key_history WHERE revision > $1)
    + (SELECT count(*) FROM erasure_history WHERE revision > $1)
    + (SELECT count(*) FROM server_history WHERE revision > $1) AS "changes!"
