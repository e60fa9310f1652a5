-- Devices and their enrolments. Never edited once released: a change is a new file. Times are in ms.

CREATE TABLE devices (
    device_no       INTEGER PRIMARY KEY,
    device_id       TEXT NOT NULL UNIQUE,       -- as senders say it
    upstream_id     TEXT,                       -- as the service wants it; NULL: the same
    state           TEXT NOT NULL,              -- gateway/devices/states.py
    reason          TEXT,                       -- why it is blocked, quarantined or in conflict
    epoch           INTEGER NOT NULL,           -- goes up with each enrolment that is not a repeat of the one before
    kind            TEXT NOT NULL,
    origin          TEXT NOT NULL,              -- how it made its first contact
    instance_id     TEXT,                       -- of its latest heartbeat; NULL: it sent none
    details         BLOB NOT NULL,              -- JSON: host, client, labels, as they are sent with the enrolment
    clone_of        TEXT,                       -- device_id that it shares with another machine
    first_seen_ms   INTEGER NOT NULL,
    last_contact_ms INTEGER NOT NULL,
    enrolled_ms     INTEGER,                    -- NULL: never yet
    interval_ms     INTEGER,                    -- between heartbeats, as the service wants it; NULL: it did not say
    cycles          BLOB NOT NULL,              -- JSON: when the service had forgotten it, in the last hour
    forbidden       INTEGER NOT NULL,           -- answers in a row that may have been about it or about the key
    beat            BLOB,                       -- JSON of the latest heartbeat that waits; empty: a ping; NULL: nothing that was posted
    beat_no         INTEGER NOT NULL,           -- goes up with each heartbeat
    beat_ms         INTEGER,                    -- when it came
    beat_due_ms     INTEGER,                    -- when one is to be sent; NULL: nothing to say
    beat_sent_ms    INTEGER,
    beat_waits      INTEGER NOT NULL,           -- 1: a posted heartbeat or ping is pending
    enrolment_waits INTEGER NOT NULL            -- 1: a posted enrolment is pending
) STRICT;
CREATE INDEX devices_due ON devices (beat_due_ms) WHERE beat_due_ms IS NOT NULL;
CREATE INDEX devices_waiting ON devices (beat_ms) WHERE beat_waits = 1;
CREATE INDEX devices_enrolling ON devices (first_seen_ms) WHERE enrolment_waits = 1;
CREATE INDEX devices_by_state ON devices (state, last_contact_ms);
CREATE INDEX devices_by_age ON devices (first_seen_ms);

-- Other names that a device goes by: the service's own.
CREATE TABLE device_aliases (
    alias     TEXT PRIMARY KEY,
    device_no INTEGER NOT NULL REFERENCES devices ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX device_aliases_by_device ON device_aliases (device_no);

-- Who beats under a device's id: two instances that take turns are two machines.
CREATE TABLE device_instances (
    device_no   INTEGER NOT NULL REFERENCES devices ON DELETE CASCADE,
    instance_id TEXT NOT NULL,
    sequence    INTEGER NOT NULL,               -- the highest seen
    seen_ms     INTEGER NOT NULL,
    number      INTEGER NOT NULL,               -- the machine, where there are several: 1 keeps the id
    PRIMARY KEY (device_no, instance_id)
) STRICT, WITHOUT ROWID;

-- One live enrolment a device; gone when the service answered it.
CREATE TABLE enrolments (
    device_no     INTEGER PRIMARY KEY REFERENCES devices ON DELETE CASCADE,
    epoch         INTEGER NOT NULL,
    enrollment_id TEXT NOT NULL UNIQUE,
    again         INTEGER NOT NULL,             -- 1: the service had forgotten it
    attempts      INTEGER NOT NULL,
    generation    INTEGER NOT NULL,             -- errors that the service answered
    due_ms        INTEGER NOT NULL,
    lease_ms      INTEGER NOT NULL              -- taken until then; 0: free
) STRICT;
CREATE INDEX enrolments_due ON enrolments (due_ms);

CREATE TABLE device_figures (
    name TEXT PRIMARY KEY,                      -- `edge.<fate>`, `lane.<fate>`, `reason.<fate>.<reason>`
    n    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE device_notes (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
