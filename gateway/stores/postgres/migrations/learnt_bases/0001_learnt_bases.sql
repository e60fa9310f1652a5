-- What instrumentations proved of their input: whether it holds the cached tokens.
CREATE TABLE learnt_bases (
    library   TEXT   COLLATE "C" NOT NULL,
    version   TEXT   COLLATE "C" NOT NULL, -- empty where none is stated
    provider  TEXT   COLLATE "C" NOT NULL,
    key       TEXT   COLLATE "C" NOT NULL, -- name of the inbound key; empty on open intake
    scope     BIGINT NOT NULL, -- fingerprint of the instrumentation scope
    inclusive BIGINT NOT NULL, -- calls that proved that the input holds the cached tokens
    exclusive BIGINT NOT NULL, -- calls that proved that it leaves them out
    last_ms   BIGINT NOT NULL
); -- no key: four texts of 256 characters may be more than an index takes, and there are 1,024 rows
