-- How many changes of API keys there were after the revision $1.
SELECT count(*) AS "changes!" FROM api_key_history WHERE revision > $1
