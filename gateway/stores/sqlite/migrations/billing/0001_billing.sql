-- What was dropped to billing connections. Never edited once released: a change is a new file.

CREATE TABLE billing_targets (
    target    TEXT PRIMARY KEY,     -- address of the upstream and id of the connection
    from_hour INTEGER NOT NULL,     -- the first hour, since 1970, of the first day that is dropped unasked
    source    TEXT NOT NULL         -- whose days they are at the upstream: the gateway's id when this began
) STRICT, WITHOUT ROWID;

CREATE TABLE billing_days (
    target             TEXT NOT NULL,
    hour               INTEGER NOT NULL,  -- the first one of the day, since 1970, UTC
    seen_revision      INTEGER NOT NULL,  -- of usage_days, whose content is in force at the upstream; 0: none is
    content            TEXT,              -- digest of that content; this and the next four are null where none is
    row_count          INTEGER,
    costs              TEXT,              -- JSON: currency -> amount
    calls_without_cost INTEGER,
    dropped_at_ms      INTEGER,
    refused            TEXT,              -- why the upstream refused the day; null where it did not
    refused_revision   INTEGER,           -- of usage_days, which it refused
    is_wanted          INTEGER NOT NULL,  -- 1: a command asked for it
    PRIMARY KEY (target, hour)
) STRICT, WITHOUT ROWID;

-- The one day that is under way, its requests as they are sent.
CREATE TABLE billing_parts (
    target         TEXT NOT NULL,
    part           INTEGER NOT NULL,      -- from 1
    batch_id       TEXT NOT NULL,
    hour           INTEGER NOT NULL,
    usage_revision INTEGER NOT NULL,
    manifest       TEXT NOT NULL,         -- JSON, of the day
    body           BLOB NOT NULL,
    frozen_at      TEXT NOT NULL,         -- RFC 3339
    generation     INTEGER NOT NULL,      -- how many errors the upstream answered
    attempts       INTEGER NOT NULL,
    is_taken       INTEGER NOT NULL,      -- the upstream has it
    PRIMARY KEY (target, part)
) STRICT;
