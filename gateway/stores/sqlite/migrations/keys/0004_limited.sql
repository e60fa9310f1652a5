-- A key may be limited to the calls of some teams or projects; so may a viewer's token, of which there are several.

ALTER TABLE keys ADD COLUMN reach TEXT NOT NULL DEFAULT '';  -- JSON object: dimension -> names; empty: everything

CREATE TABLE viewer_tokens (
    token_id      TEXT PRIMARY KEY,
    name          TEXT NOT NULL UNIQUE,
    reach         TEXT NOT NULL,     -- as that of a key
    secret_hash   BLOB NOT NULL,     -- HMAC-SHA256(pepper, secret)
    display       TEXT NOT NULL,
    created_by    TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL
) STRICT;
