-- Who owns the cell. One row; its epoch grows by one with each owner, and every commit of the owner names it.
CREATE TABLE cell (
    one     BOOLEAN     NOT NULL DEFAULT TRUE UNIQUE CHECK (one),
    epoch   BIGINT      PRIMARY KEY,  -- a key, so that a new owner waits for commits that hold a share of it
    owner   TEXT,                     -- the member that has it; NULL once it gave it back
    since   TIMESTAMPTZ,              -- when this owner took it
    until   TIMESTAMPTZ NOT NULL,     -- the end of its lease, by this database's clock
    why     TEXT        NOT NULL DEFAULT ''  -- how it came to this owner: `start`, `released` or `expired`
);
INSERT INTO cell (epoch, until) VALUES (0, clock_timestamp());

-- Gateways of the cell, by the id of each process.
CREATE TABLE member (
    id         TEXT        PRIMARY KEY,
    name       TEXT        NOT NULL,  -- of its machine
    release    TEXT        NOT NULL,
    forms      TEXT        NOT NULL,  -- forms of journal rows that it reads, as JSON
    http       TEXT,                  -- where it listens for other members while it owns the cell; NULL while it does not
    admin      TEXT,
    secrets    TEXT        NOT NULL,  -- JSON: digests of the files that must be equal on all members
    started_at TIMESTAMPTZ NOT NULL,
    seen_at    TIMESTAMPTZ NOT NULL
);

-- What edges took and the owner has not counted.
CREATE TABLE journal (
    xid      XID8        NOT NULL DEFAULT pg_current_xact_id(), -- with the id about the order of commits
    id       BIGINT      GENERATED ALWAYS AS IDENTITY,
    form     BIGINT      NOT NULL,
    payloads BIGINT      NOT NULL,
    kept_at  TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    packed   BOOLEAN     NOT NULL,    -- whether body is one zstd frame
    body     BYTEA       NOT NULL,
    PRIMARY KEY (xid, id)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 20000
);
ALTER TABLE journal ALTER COLUMN body SET STORAGE EXTERNAL; -- compressed already

-- Rows that do not hold together, for whoever looks into it.
CREATE TABLE journal_damaged (
    form     BIGINT      NOT NULL,
    payloads BIGINT      NOT NULL,
    kept_at  TIMESTAMPTZ NOT NULL,
    packed   BOOLEAN     NOT NULL,
    body     BYTEA       NOT NULL
);
