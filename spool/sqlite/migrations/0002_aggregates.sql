-- Metrics: what is known of each series, the aggregates that wait for their time, and who was seen to report what.

-- The last that was counted of one series; of a delta series, one report that was counted.
CREATE TABLE series (
    key          BLOB    PRIMARY KEY, -- 16 bytes
    start_ns     INTEGER NOT NULL,    -- 0 when the sender does not say
    time_ns      INTEGER NOT NULL,
    value        INTEGER NOT NULL,    -- tokens, or picounits of money
    measurements INTEGER NOT NULL,    -- of a histogram; -1 for none
    seen_ms      INTEGER NOT NULL,    -- wall clock when this row was written
    until_ms     INTEGER NOT NULL     -- forgotten after this
) WITHOUT ROWID;
CREATE INDEX series_until ON series (until_ms);

-- Aggregates that are kept, and not yet in a chunk: pending records of ai_telemetry and of every lane that follows it.
CREATE TABLE held (
    id          INTEGER PRIMARY KEY,
    received_ms INTEGER NOT NULL,
    facts       BLOB    NOT NULL,     -- what decides whether it is billed, opaque here
    record      BLOB    NOT NULL      -- ready JSON
);
CREATE INDEX held_received ON held (received_ms);

-- Who was seen to report calls or metrics, so that a restart knows which of them repeat each other.
CREATE TABLE sighting (
    whose   TEXT    PRIMARY KEY,      -- opaque here
    seen_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX sighting_seen ON sighting (seen_ms);
