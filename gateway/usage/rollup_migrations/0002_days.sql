-- Which days changed, for what is sent of a day as a whole.

CREATE TABLE usage_days (
    hour     INTEGER PRIMARY KEY, -- the first one of the day, since 1970, UTC
    revision INTEGER NOT NULL     -- increases whenever usage is added to the day
) STRICT;

INSERT INTO usage_days (hour, revision)
    SELECT DISTINCT hour, 1 FROM usage_rollups WHERE span = 24 AND grain = 1;
