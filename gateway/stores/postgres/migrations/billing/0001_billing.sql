-- What was dropped to billing connections, and drops that senders gave to a gateway for them. Never edited once
-- released: a change is a new file.

CREATE TABLE billing_targets (
    target    TEXT   COLLATE "C" PRIMARY KEY,           -- address of the upstream and id of the connection
    from_hour BIGINT NOT NULL,                          -- the first hour, since 1970, of the first day that is dropped unasked
    source    TEXT   COLLATE "C" NOT NULL               -- whose days they are at the upstream: the gateway's id when this began
);

CREATE TABLE billing_days (
    target             TEXT    COLLATE "C" NOT NULL,
    hour               BIGINT  NOT NULL,                -- the first one of the day, since 1970, UTC
    seen_revision      BIGINT  NOT NULL,                -- of usage_days, whose content is in force at the upstream; 0: none is
    content            TEXT    COLLATE "C",             -- digest of that content; this and the next four are null where none is
    row_count          BIGINT,
    costs              TEXT    COLLATE "C",             -- JSON: currency -> amount
    calls_without_cost BIGINT,
    dropped_at_ms      BIGINT,
    refused            TEXT    COLLATE "C",             -- why the upstream refused the day; null where it did not
    refused_revision   BIGINT,                          -- of usage_days, which it refused
    is_wanted          BOOLEAN NOT NULL,                -- a command asked for it
    PRIMARY KEY (target, hour)
);

-- The one day that is under way, its requests as they are sent.
CREATE TABLE billing_parts (
    target         TEXT    COLLATE "C" NOT NULL,
    part           BIGINT  NOT NULL,                    -- from 1
    batch_id       TEXT    COLLATE "C" NOT NULL,
    hour           BIGINT  NOT NULL,
    usage_revision BIGINT  NOT NULL,
    manifest       TEXT    COLLATE "C" NOT NULL,        -- JSON, of the day
    body           BYTEA   NOT NULL,
    frozen_at      TEXT    COLLATE "C" NOT NULL,        -- RFC 3339
    generation     BIGINT  NOT NULL,                    -- how many errors the upstream answered
    attempts       BIGINT  NOT NULL,
    is_taken       BOOLEAN NOT NULL,                    -- the upstream has it
    PRIMARY KEY (target, part)
);

CREATE TABLE billing_relayed (
    drop_no        BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- the order in which they were accepted, and go out
    drop_id        TEXT   COLLATE "C" NOT NULL UNIQUE,  -- the sender got it in its answer; the batch goes out under it
    connection     TEXT   COLLATE "C" NOT NULL,
    body           BYTEA,                               -- as it came, decompressed; null once the upstream has it, or it was given up
    n_bytes        BIGINT NOT NULL,                     -- of the body
    content        BYTEA  NOT NULL,                     -- sha256 of the body
    repeat_key     BYTEA  UNIQUE,                       -- by what a repeat of the request is known; null where it showed none
    month          TEXT   COLLATE "C" NOT NULL,         -- YYYY-MM
    row_count      BIGINT NOT NULL,
    operation      TEXT   COLLATE "C" NOT NULL,
    source_day     TEXT   COLLATE "C",                  -- of a part of a FOCUS day: whose day, and which; else null
    division       TEXT   COLLATE "C",                  -- and its revision with the number of its parts
    key_name       TEXT   COLLATE "C",                  -- of the inbound key; null on open intake
    accepted_at_ms BIGINT NOT NULL,
    state          TEXT   COLLATE "C" NOT NULL,         -- waiting; sent: the upstream lacks other parts of its day; delivered; refused; expired
    generation     BIGINT NOT NULL,                     -- how many errors the upstream answered
    attempts       BIGINT NOT NULL,
    refused        TEXT   COLLATE "C",                  -- why the upstream refused it
    ended_at_ms    BIGINT                               -- when it was delivered, refused or given up
);

CREATE INDEX billing_relayed_by_connection ON billing_relayed (connection, state, drop_no);
