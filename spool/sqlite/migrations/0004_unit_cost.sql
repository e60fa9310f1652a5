-- Unit cost: streams, the running totals of their places, and the batches that ship them; what was taken before.

-- A stream is made by its first records, which fix its kind, granularity and dimensions.
CREATE TABLE unit_stream (
    id            INTEGER PRIMARY KEY,
    name          TEXT    NOT NULL UNIQUE,
    kind          TEXT    NOT NULL,
    granularity   TEXT    NOT NULL,
    dimensions    TEXT    NOT NULL,   -- JSON array, sorted
    ships         TEXT    NOT NULL,   -- `replace` or `sum`
    whole_from_ms INTEGER             -- buckets from here on hold nothing at the far end that is not ours; null: not known yet
);

-- What a place (bucket, element, filter) of a stream comes to.
CREATE TABLE unit_total (
    id         INTEGER PRIMARY KEY,
    stream     INTEGER NOT NULL,
    bucket_ms  INTEGER NOT NULL,      -- start of its hour, day or month, UTC
    element    TEXT    NOT NULL,      -- '' in a metric stream; in an allocation stream: every element (deletes only)
    filter     TEXT    NOT NULL,      -- JSON, keys and values sorted; '': whatever the filter (deletes only)
    value      TEXT    NOT NULL,      -- decimal: the whole total, or where it is not whole, what no batch holds yet
    held       TEXT    NOT NULL DEFAULT '0', -- what the far end is known to hold of a whole total
    whole      INTEGER NOT NULL,
    wide       INTEGER NOT NULL,      -- whether it stands for more than one place: a delete
    records    INTEGER NOT NULL,      -- kept records that it stands for and that no batch holds: pending
    since_ms   INTEGER NOT NULL,      -- when the first of them came
    touched_ms INTEGER NOT NULL,
    UNIQUE (stream, bucket_ms, element, filter)
);
CREATE INDEX unit_total_waiting ON unit_total (stream, since_ms) WHERE records>0;
CREATE INDEX unit_total_wide ON unit_total (stream) WHERE wide;
CREATE INDEX unit_total_touched ON unit_total (touched_ms);

-- A frozen batch of one stream and operation: its items' bytes never change.
CREATE TABLE unit_batch (
    batch_id   TEXT    PRIMARY KEY,
    stream     INTEGER NOT NULL,
    operation  TEXT    NOT NULL,      -- `sum`, `replace`, `delete`, or `read`: what the far end holds already
    frozen_ms  INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    attempts   INTEGER NOT NULL,
    sent_at    TEXT    NOT NULL
) WITHOUT ROWID;

CREATE TABLE unit_item (
    id       INTEGER PRIMARY KEY,
    batch_id TEXT    NOT NULL,
    total    INTEGER NOT NULL,
    value    TEXT    NOT NULL,        -- decimal, as it is sent; '0' for a delete
    records  INTEGER NOT NULL,        -- pending, until its end
    since_ms INTEGER NOT NULL,
    body     BLOB    NOT NULL
);
CREATE INDEX unit_item_batch ON unit_item (batch_id);
CREATE INDEX unit_item_total ON unit_item (total);

-- What was taken, so that its repeat counts once: events by their id, requests by their Idempotency-Key.
CREATE TABLE taken (
    key      BLOB    PRIMARY KEY,     -- 16 bytes
    content  BLOB    NOT NULL,        -- 8 bytes: whether a repeat says the same
    taken_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX taken_age ON taken (taken_ms);

ALTER TABLE dead_letter ADD COLUMN records INTEGER NOT NULL DEFAULT 1;  -- that it stands for: a total stands for many
