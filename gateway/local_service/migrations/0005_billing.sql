-- Connections of billing data, and the rows that their drops hold. Drops of before held a count alone; their connections
-- are established, so that their senders go on.
CREATE TABLE billing_connections (
    connection_no   INTEGER PRIMARY KEY,
    connection_id   TEXT NOT NULL UNIQUE,
    name            TEXT NOT NULL UNIQUE,
    status          TEXT NOT NULL CHECK (status IN ('active', 'paused')),
    created_at_ms   INTEGER NOT NULL,
    created_by      TEXT NOT NULL,          -- name of the key; '' where that is not known
    last_updated_ms INTEGER NOT NULL
) STRICT;
INSERT INTO billing_connections (connection_id, name, status, created_at_ms, created_by, last_updated_ms)
    SELECT connection_id, connection_id, 'active', min(stored_at_ms), '', max(stored_at_ms)
    FROM billing_drops GROUP BY connection_id;

ALTER TABLE billing_drops ADD COLUMN format TEXT NOT NULL DEFAULT 'cbf';
ALTER TABLE billing_drops ADD COLUMN day TEXT;      -- of FOCUS; as the next two
ALTER TABLE billing_drops ADD COLUMN source TEXT;
ALTER TABLE billing_drops ADD COLUMN revision TEXT;
CREATE INDEX billing_drops_by_connection ON billing_drops (connection_id, drop_no);

CREATE TABLE billing_rows (
    row_no        INTEGER PRIMARY KEY,
    connection_no INTEGER NOT NULL REFERENCES billing_connections,
    source        TEXT NOT NULL,            -- who sends FOCUS rows; '' for the Common Bill Format
    month         TEXT NOT NULL,            -- YYYY-MM
    starts_at_ms  INTEGER NOT NULL,
    row           BLOB NOT NULL             -- JSON
) STRICT;
CREATE INDEX billing_rows_by_month ON billing_rows (connection_no, month, starts_at_ms, row_no);

-- Days of FOCUS rows that are in force.
CREATE TABLE billing_days (
    connection_no INTEGER NOT NULL REFERENCES billing_connections,
    source        TEXT NOT NULL,
    day           TEXT NOT NULL,
    revision      TEXT NOT NULL,
    drop_id       TEXT NOT NULL,
    PRIMARY KEY (connection_no, source, day)
) STRICT, WITHOUT ROWID;

-- Parts of days that are not there whole.
CREATE TABLE billing_parts (
    connection_no INTEGER NOT NULL REFERENCES billing_connections,
    source        TEXT NOT NULL,
    day           TEXT NOT NULL,
    revision      TEXT NOT NULL,
    part          INTEGER NOT NULL,
    rows          BLOB NOT NULL,            -- JSON array
    PRIMARY KEY (connection_no, source, day, revision, part)
) STRICT, WITHOUT ROWID;
