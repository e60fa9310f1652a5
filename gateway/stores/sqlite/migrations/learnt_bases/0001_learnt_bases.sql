-- What instrumentations proved of their input: whether it holds the cached tokens.
CREATE TABLE learnt_bases (
    library   TEXT    NOT NULL,
    version   TEXT    NOT NULL,         -- empty where none is stated
    provider  TEXT    NOT NULL,
    key       TEXT    NOT NULL,         -- name of the inbound key; empty on open intake
    scope     INTEGER NOT NULL,         -- fingerprint of the instrumentation scope
    inclusive INTEGER NOT NULL,         -- calls that proved that the input holds the cached tokens
    exclusive INTEGER NOT NULL,         -- calls that proved that it leaves them out
    last_ms   INTEGER NOT NULL,
    PRIMARY KEY (library, version, provider, key)
) STRICT, WITHOUT ROWID;
