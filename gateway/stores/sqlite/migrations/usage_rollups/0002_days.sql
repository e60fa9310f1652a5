-- Which days changed, for what is sent of a day as a whole.

CREATE TABLE usage_days (
    hour     INTEGER PRIMARY KEY, -- the first one of the day, since 1970, UTC
    revision INTEGER NOT NULL     -- increases whenever usage is added to the day
) STRICT;

INSERT INTO usage_days (hour, revision)
    SELECT DISTINCT hour, 1 FROM usage_rollups WHERE span = 24 AND grain = 1;

-- First hour of the first day that was counted from its beginning: earlier days hold late usage alone, or what a new
-- control.db found in an old spool. NULL before the first count.
ALTER TABLE usage_rollup_state ADD COLUMN counted_from INTEGER;

UPDATE usage_rollup_state SET counted_from = (SELECT min(hour) FROM usage_rollups WHERE span = 24 AND grain = 1);
