-- Drops that senders gave to this gateway for connections of the upstream. Never edited once released.

CREATE TABLE billing_relayed (
    drop_no        INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order in which they were accepted, and go out
    drop_id        TEXT NOT NULL UNIQUE,   -- the sender got it in its answer; the batch goes out under it
    connection     TEXT NOT NULL,
    body           BLOB,                   -- as it came, decompressed; null once the upstream has it, or it was given up
    n_bytes        INTEGER NOT NULL,       -- of the body
    content        BLOB NOT NULL,          -- sha256 of the body
    repeat_key     BLOB UNIQUE,            -- by what a repeat of the request is known; null where it showed none
    month          TEXT NOT NULL,          -- YYYY-MM
    row_count      INTEGER NOT NULL,
    operation      TEXT NOT NULL,
    source_day     TEXT,                   -- of a part of a FOCUS day: whose day, and which; else null
    division       TEXT,                   -- and its revision with the number of its parts
    key_name       TEXT,                   -- of the inbound key; null on open intake
    accepted_at_ms INTEGER NOT NULL,
    state          TEXT NOT NULL,          -- waiting; sent: the upstream lacks other parts of its day; delivered; refused; expired
    generation     INTEGER NOT NULL,       -- how many errors the upstream answered
    attempts       INTEGER NOT NULL,
    refused        TEXT,                   -- why the upstream refused it
    ended_at_ms    INTEGER                 -- when it was delivered, refused or given up
) STRICT;

CREATE INDEX billing_relayed_by_connection ON billing_relayed (connection, state, drop_no);
