-- Keys and what is true of all of them. Never edited once released: a change is a new file.

CREATE TABLE keys (
    key_id              TEXT    COLLATE "C" PRIMARY KEY,
    name                TEXT    COLLATE "C" NOT NULL UNIQUE,
    description         TEXT    COLLATE "C" NOT NULL,
    mode                TEXT    COLLATE "C" NOT NULL CHECK (mode IN ('fixed', 'managed')),
    grants              TEXT    COLLATE "C" NOT NULL, -- JSON array: scopes of a fixed key, use cases of a managed one
    status              TEXT    COLLATE "C" NOT NULL CHECK (status IN ('Enabled', 'Disabled')),
    secret_hash         BYTEA   NOT NULL,             -- HMAC-SHA256(pepper, secret)
    display             TEXT    COLLATE "C" NOT NULL,
    created_by          TEXT    COLLATE "C" NOT NULL,
    created_at_ms       BIGINT  NOT NULL,
    updated_by          TEXT    COLLATE "C" NOT NULL,
    modified_at_ms      BIGINT  NOT NULL,
    accessed_at_ms      BIGINT,                       -- NULL: never used
    labels              TEXT    COLLATE "C" NOT NULL, -- JSON object, names in order
    requests_per_minute BIGINT  CHECK (requests_per_minute >= 1), -- NULL: no limit
    bytes_per_minute    BIGINT  CHECK (bytes_per_minute >= 1),    -- NULL: no limit
    is_legacy           BOOLEAN NOT NULL,             -- the one key from before there were several
    counted_by_name     TEXT    COLLATE "C"           -- NULL: counting knows it by its id
);
CREATE UNIQUE INDEX one_legacy_key ON keys (is_legacy) WHERE is_legacy;

CREATE TABLE key_facts (
    only_row     BOOLEAN PRIMARY KEY CHECK (only_row),
    generation   BIGINT  NOT NULL,                    -- goes up with every change but the time of last access
    created      BIGINT  NOT NULL,                    -- keys ever made, deleted ones too
    pepper_check BYTEA                                -- tells a lost or foreign pepper file
);

INSERT INTO key_facts (only_row, generation, created) VALUES (TRUE, 0, 0);
