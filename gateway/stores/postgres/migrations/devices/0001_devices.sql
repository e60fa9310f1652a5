-- Devices and their enrolments. Never edited once released: a change is a new file. Times are in ms.

CREATE TABLE devices (
    device_no       BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    device_id       TEXT   COLLATE "C" NOT NULL UNIQUE, -- as senders say it
    upstream_id     TEXT   COLLATE "C",                 -- as the service wants it; NULL: the same
    state           TEXT   COLLATE "C" NOT NULL,        -- gateway/fleet/devices/states.py
    reason          TEXT   COLLATE "C",                 -- why it is blocked, quarantined or in conflict
    epoch           BIGINT NOT NULL,                    -- goes up with each enrolment that is not a repeat of the one before
    kind            TEXT   COLLATE "C" NOT NULL,
    origin          TEXT   COLLATE "C" NOT NULL,        -- how it made its first contact
    instance_id     TEXT   COLLATE "C",                 -- of its latest heartbeat; NULL: it sent none
    details         BYTEA  NOT NULL,                    -- JSON: host, client, labels, as they are sent with the enrolment
    clone_of        TEXT   COLLATE "C",                 -- device_id that it shares with another machine
    first_seen_ms   BIGINT NOT NULL,
    last_contact_ms BIGINT NOT NULL,
    enrolled_ms     BIGINT,                             -- NULL: never yet
    interval_ms     BIGINT,                             -- between heartbeats, as the service wants it; NULL: it did not say
    cycles          BYTEA  NOT NULL,                    -- JSON: when the service had forgotten it, in the last hour
    forbidden       BIGINT NOT NULL,                    -- answers in a row that may have been about it or about the key
    beat            BYTEA,                              -- JSON of the latest heartbeat that waits; empty: a ping; NULL: nothing that was posted
    beat_no         BIGINT NOT NULL,                    -- goes up with each heartbeat
    beat_ms         BIGINT,                             -- when it came
    beat_due_ms     BIGINT,                             -- when one is to be sent; NULL: nothing to say
    beat_sent_ms    BIGINT,
    beat_waits      BIGINT NOT NULL,                    -- 1: a posted heartbeat or ping is pending
    enrolment_waits BIGINT NOT NULL                     -- 1: a posted enrolment is pending
);
CREATE INDEX devices_due ON devices (beat_due_ms) WHERE beat_due_ms IS NOT NULL;
CREATE INDEX devices_waiting ON devices (beat_ms) WHERE beat_waits = 1;
CREATE INDEX devices_enrolling ON devices (first_seen_ms) WHERE enrolment_waits = 1;
CREATE INDEX devices_by_state ON devices (state, last_contact_ms);
CREATE INDEX devices_by_age ON devices (first_seen_ms);

-- Other names that a device goes by: the service's own.
CREATE TABLE device_aliases (
    alias     TEXT   COLLATE "C" PRIMARY KEY,
    device_no BIGINT NOT NULL REFERENCES devices ON DELETE CASCADE
);
CREATE INDEX device_aliases_by_device ON device_aliases (device_no);

-- Who beats under a device's id: two instances that take turns are two machines.
CREATE TABLE device_instances (
    device_no   BIGINT NOT NULL REFERENCES devices ON DELETE CASCADE,
    instance_id TEXT   COLLATE "C" NOT NULL,
    sequence    BIGINT NOT NULL,                        -- the highest seen
    seen_ms     BIGINT NOT NULL,
    number      BIGINT NOT NULL,                        -- the machine, where there are several: 1 keeps the id
    PRIMARY KEY (device_no, instance_id)
);

-- One live enrolment a device; gone when the service answered it.
CREATE TABLE enrolments (
    device_no     BIGINT  PRIMARY KEY REFERENCES devices ON DELETE CASCADE,
    epoch         BIGINT  NOT NULL,
    enrollment_id TEXT    COLLATE "C" NOT NULL UNIQUE,
    again         BOOLEAN NOT NULL,                     -- the service had forgotten it
    attempts      BIGINT  NOT NULL,
    generation    BIGINT  NOT NULL,                     -- errors that the service answered
    due_ms        BIGINT  NOT NULL,
    lease_ms      BIGINT  NOT NULL,                     -- taken until then; 0: free
    body          BYTEA                                 -- as it was sent first; NULL: it was not sent yet
);
CREATE INDEX enrolments_due ON enrolments (due_ms);

CREATE TABLE device_figures (
    name TEXT   COLLATE "C" PRIMARY KEY,                -- `edge.<fate>`, `lane.<fate>`, `reason.<fate>.<reason>`
    n    BIGINT NOT NULL
);

CREATE TABLE device_notes (
    name  TEXT   COLLATE "C" PRIMARY KEY,
    value BIGINT NOT NULL
);
