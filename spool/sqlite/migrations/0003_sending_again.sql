-- Sending again: what was refused or delivered before; dead letters by lane, reason and age.

-- '': records on their first way. 'dead_letter': dead letters that were put back and are pending again; their chunks are of
-- the lane `again:<lane>`, which nothing else reads. 'delivered': records that stay delivered, whatever comes of it.
ALTER TABLE batch ADD COLUMN origin TEXT NOT NULL DEFAULT '';

-- Records to be sent again that are in no batch yet: from one position up to, not including, another.
CREATE TABLE stretch (
    id     INTEGER PRIMARY KEY,
    lane   TEXT    NOT NULL,
    origin TEXT    NOT NULL,              -- as in batch, never ''
    seq_lo INTEGER NOT NULL,
    idx_lo INTEGER NOT NULL,
    seq_hi INTEGER NOT NULL,
    idx_hi INTEGER NOT NULL,
    n      INTEGER NOT NULL               -- records in it, less what settling dropped
);
CREATE INDEX stretch_lane ON stretch (lane, origin, seq_lo);

ALTER TABLE dead_letter ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;  -- of the record
UPDATE dead_letter SET bytes = length(record);
CREATE INDEX dead_letter_reason ON dead_letter (lane, code, buried_ms, bytes);
CREATE INDEX dead_letter_age ON dead_letter (buried_ms);

-- Counts beside the figures' two identities, no part of them.
CREATE TABLE side_count (
    lane TEXT    NOT NULL,
    name TEXT    NOT NULL,                -- `dead_letters.dropped`, `sent_again.delivered`, …
    n    INTEGER NOT NULL,
    PRIMARY KEY (lane, name)
) WITHOUT ROWID;
