-- What the local service keeps. Never edited once released: a change is a new file.

CREATE TABLE idempotency (
    method          TEXT NOT NULL,
    path            TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    kept_at_ms      INTEGER NOT NULL,
    status          INTEGER NOT NULL,
    body            BLOB NOT NULL,
    retry_after_s   INTEGER,
    PRIMARY KEY (method, path, idempotency_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_by_age ON idempotency (kept_at_ms);

-- One row a record, with what lists and sums need. The record itself is kept whole beside it, so that a sum over
-- everything reads a sixth of the bytes.
CREATE TABLE ai_records (
    record_no                   INTEGER PRIMARY KEY,
    record_id                   TEXT NOT NULL UNIQUE,
    stored_at_ms                INTEGER NOT NULL,
    started_at_ms               INTEGER NOT NULL,
    gateway_id                  TEXT NOT NULL,
    batch_id                    TEXT NOT NULL,
    kind                        TEXT NOT NULL,
    billed                      INTEGER NOT NULL,
    status                      TEXT NOT NULL,
    usage_status                TEXT NOT NULL,
    operation                   TEXT NOT NULL,
    provider                    TEXT,
    model                       TEXT,
    service_name                TEXT,
    environment                 TEXT,
    user                        TEXT,
    team                        TEXT,
    project                     TEXT,
    device_id                   TEXT,
    key                         TEXT,
    calls                       INTEGER,
    input_tokens                INTEGER,
    output_tokens               INTEGER,
    cache_read_input_tokens     INTEGER,
    cache_creation_input_tokens INTEGER,
    reasoning_output_tokens     INTEGER,
    cost_pico                   INTEGER,  -- whole 1e-12 of the currency
    cost_rest                   TEXT,     -- the amount as decimal text, where it is not a whole number of those
    currency                    TEXT      -- NULL: no cost is known
) STRICT;
CREATE INDEX ai_records_by_start ON ai_records (started_at_ms, record_no);

CREATE TABLE ai_record_bodies (
    record_no INTEGER PRIMARY KEY REFERENCES ai_records,
    record    BLOB NOT NULL
) STRICT;

CREATE TABLE events (
    event_no     INTEGER PRIMARY KEY,
    event_id     TEXT UNIQUE,             -- metadata.event_id; NULL: a repeat cannot be told
    stored_at_ms INTEGER NOT NULL,
    timestamp_ms INTEGER NOT NULL,
    title        TEXT NOT NULL,
    source       TEXT NOT NULL,
    event        BLOB NOT NULL
) STRICT;
CREATE INDEX events_by_time ON events (timestamp_ms, event_no);

CREATE TABLE devices (
    device_no       INTEGER PRIMARY KEY,
    device_id       TEXT NOT NULL UNIQUE,
    epoch           INTEGER NOT NULL,
    status          TEXT NOT NULL CHECK (status IN ('active', 'pending', 'blocked')),
    kind            TEXT NOT NULL,
    instance_id     TEXT NOT NULL,
    first_seen_ms   INTEGER NOT NULL,
    enrolled_at_ms  INTEGER NOT NULL,
    heartbeat_at_ms INTEGER,              -- observed_at of the latest one
    health          TEXT,
    pinged_at_ms    INTEGER,
    details         BLOB NOT NULL         -- the enrolment as it came
) STRICT;

CREATE TABLE device_enrollments (
    enrollment_id TEXT PRIMARY KEY,
    device_no     INTEGER NOT NULL REFERENCES devices ON DELETE CASCADE,
    epoch         INTEGER NOT NULL
) STRICT;
CREATE INDEX device_enrollments_by_device ON device_enrollments (device_no);

CREATE TABLE device_instances (
    device_no   INTEGER NOT NULL REFERENCES devices ON DELETE CASCADE,
    instance_id TEXT NOT NULL,
    sequence    INTEGER NOT NULL,         -- the highest seen
    heartbeats  INTEGER NOT NULL,         -- distinct ones that were applied
    PRIMARY KEY (device_no, instance_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE unit_cost_streams (
    stream_no   INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    kind        TEXT NOT NULL CHECK (kind IN ('allocation', 'metric')),
    granularity TEXT NOT NULL,
    dimensions  TEXT NOT NULL             -- JSON array, sorted: every record has these filter keys
) STRICT;

CREATE TABLE unit_cost_records (
    record_no     INTEGER PRIMARY KEY,
    stream_no     INTEGER NOT NULL REFERENCES unit_cost_streams ON DELETE CASCADE,
    bucket_ms     INTEGER NOT NULL,       -- start of its hour, day or month, UTC
    element_name  TEXT NOT NULL,          -- '' in a metric stream
    filter        TEXT NOT NULL,          -- JSON, keys and values sorted
    value         TEXT NOT NULL,          -- decimal
    deleted       INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    UNIQUE (stream_no, bucket_ms, element_name, filter)
) STRICT;

CREATE TABLE billing_drops (
    drop_no       INTEGER PRIMARY KEY,
    drop_id       TEXT NOT NULL UNIQUE,
    connection_id TEXT NOT NULL,
    month         TEXT NOT NULL,
    operation     TEXT NOT NULL,
    row_count     INTEGER NOT NULL,
    stored_at_ms  INTEGER NOT NULL
) STRICT;

CREATE TABLE insights (
    insight_no      INTEGER PRIMARY KEY,
    status          TEXT NOT NULL CHECK (status IN ('new', 'in_progress', 'on_hold', 'addressed', 'ignored')),
    category        TEXT NOT NULL,
    cost_impact     TEXT NOT NULL,        -- decimal
    effort          TEXT NOT NULL,
    last_updated_ms INTEGER NOT NULL,
    title           TEXT NOT NULL
) STRICT;
