-- A key may be limited to the calls of some teams or projects; so may a viewer's token, of which there are several.

ALTER TABLE keys ADD COLUMN reach TEXT COLLATE "C" NOT NULL DEFAULT '';  -- JSON object: dimension -> names; empty: everything

CREATE TABLE viewer_tokens (
    token_id      TEXT   COLLATE "C" PRIMARY KEY,
    name          TEXT   COLLATE "C" NOT NULL UNIQUE,
    reach         TEXT   COLLATE "C" NOT NULL,   -- as that of a key
    secret_hash   BYTEA  NOT NULL,               -- HMAC-SHA256(pepper, secret)
    display       TEXT   COLLATE "C" NOT NULL,
    created_by    TEXT   COLLATE "C" NOT NULL,
    created_at_ms BIGINT NOT NULL
);
