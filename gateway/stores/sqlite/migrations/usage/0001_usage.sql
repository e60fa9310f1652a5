-- Usage by the hour, for the detectors. Never edited once released: a change is a new file.

CREATE TABLE usage_hours (
    hour                INTEGER NOT NULL, -- since 1970, UTC; of the call's start
    provider            TEXT NOT NULL,    -- '' in this and the next four: not known
    model               TEXT NOT NULL,
    team                TEXT NOT NULL,
    service_name        TEXT NOT NULL,
    currency            TEXT NOT NULL,
    cost_source         TEXT NOT NULL,    -- 'reported', 'estimated', or '' where no cost is known
    calls               INTEGER NOT NULL, -- billed ones; of an aggregate as many as it states
    failed_calls        INTEGER NOT NULL,
    calls_without_usage INTEGER NOT NULL,
    calls_without_price INTEGER NOT NULL,
    input_tokens        INTEGER NOT NULL,
    output_tokens       INTEGER NOT NULL,
    cacheable_tokens    INTEGER NOT NULL, -- input tokens of records that say how many were read from a cache
    cache_read_tokens   INTEGER NOT NULL,
    cost_whole          INTEGER NOT NULL, -- of the currency
    cost_pico           INTEGER NOT NULL, -- 1e-12 of it, beside the whole
    PRIMARY KEY (hour, provider, model, team, service_name, currency, cost_source)
) STRICT, WITHOUT ROWID;

CREATE TABLE usage_models (
    provider   TEXT NOT NULL,
    model      TEXT NOT NULL,
    first_hour INTEGER NOT NULL,
    last_hour  INTEGER NOT NULL,
    PRIMARY KEY (provider, model)
) STRICT, WITHOUT ROWID;

CREATE TABLE usage_counted (
    source     TEXT PRIMARY KEY,  -- a spool's id, or a table's name
    through_no INTEGER NOT NULL,  -- the last chunk or row that is in the tables above
    began_hour INTEGER NOT NULL   -- when counting began
) STRICT;
