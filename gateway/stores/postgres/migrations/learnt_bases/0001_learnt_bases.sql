-- What instrumentations proved of their input: whether it holds the cached tokens.
CREATE TABLE learnt_bases (
    library   TEXT   COLLATE "C" NOT NULL,
    version   TEXT   COLLATE "C" NOT NULL, -- empty where none is stated
    provider  TEXT   COLLATE "C" NOT NULL,
    key       TEXT   COLLATE "C" NOT NULL, -- name of the inbound key; empty on open intake
    scope     BIGINT NOT NULL, -- fingerprint of the instrumentation scope
    inclusive BIGINT NOT NULL, -- calls that proved that the input holds the cached tokens
    exclusive BIGINT NOT NULL, -- calls that proved that it leaves them out
    last_ms   BIGINT NOT NULL,
    PRIMARY KEY (library, version, provider, key)
);
