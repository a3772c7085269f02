-- Whether there ever was a feature of this name.
SELECT EXISTS (SELECT FROM list_feature_history WHERE entity_type = $1 AND name = $2) AS "exists!"
