-- Keys and what is true of all of them. Never edited once released: a change is a new file.

CREATE TABLE keys (
    key_id         TEXT PRIMARY KEY,
    name           TEXT NOT NULL UNIQUE,
    description    TEXT NOT NULL,
    mode           TEXT NOT NULL CHECK (mode IN ('fixed', 'managed')),
    grants         TEXT NOT NULL,     -- JSON array: scopes of a fixed key, use cases of a managed one
    status         TEXT NOT NULL CHECK (status IN ('Enabled', 'Disabled')),
    secret_hash    BLOB NOT NULL,     -- HMAC-SHA256(pepper, secret)
    display        TEXT NOT NULL,
    created_by     TEXT NOT NULL,
    created_at_ms  INTEGER NOT NULL,
    updated_by     TEXT NOT NULL,
    modified_at_ms INTEGER NOT NULL,
    accessed_at_ms INTEGER            -- NULL: never used
) STRICT;

CREATE TABLE key_facts (
    only_row     INTEGER PRIMARY KEY CHECK (only_row = 1),
    generation   INTEGER NOT NULL,    -- goes up with every change but the time of last access
    created      INTEGER NOT NULL,    -- keys ever made, deleted ones too
    pepper_check BLOB                 -- tells a lost or foreign pepper file
) STRICT;

INSERT INTO key_facts (only_row, generation, created) VALUES (1, 0, 0);
