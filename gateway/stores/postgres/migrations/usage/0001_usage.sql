-- Usage by the hour, for the detectors. Never edited once released: a change is a new file.

CREATE TABLE usage_hours (
    hour                BIGINT NOT NULL,             -- since 1970, UTC; of the call's start
    provider            TEXT COLLATE "C" NOT NULL,   -- '' in this and the next four: not known
    model               TEXT COLLATE "C" NOT NULL,
    team                TEXT COLLATE "C" NOT NULL,
    service_name        TEXT COLLATE "C" NOT NULL,
    currency            TEXT COLLATE "C" NOT NULL,
    cost_source         TEXT COLLATE "C" NOT NULL,   -- 'reported', 'estimated', or '' where no cost is known
    calls               BIGINT NOT NULL,             -- billed ones; of an aggregate as many as it states
    failed_calls        BIGINT NOT NULL,
    calls_without_usage BIGINT NOT NULL,
    calls_without_price BIGINT NOT NULL,
    input_tokens        BIGINT NOT NULL,
    output_tokens       BIGINT NOT NULL,
    cacheable_tokens    BIGINT NOT NULL,             -- input tokens of records that say how many were read from a cache
    cache_read_tokens   BIGINT NOT NULL,
    cost_whole          BIGINT NOT NULL,             -- of the currency
    cost_pico           BIGINT NOT NULL,             -- 1e-12 of it, beside the whole
    PRIMARY KEY (hour, provider, model, team, service_name, currency, cost_source)
);

CREATE TABLE usage_models (
    provider   TEXT COLLATE "C" NOT NULL,
    model      TEXT COLLATE "C" NOT NULL,
    first_hour BIGINT NOT NULL,
    last_hour  BIGINT NOT NULL,
    PRIMARY KEY (provider, model)
);

CREATE TABLE usage_counted (
    source     TEXT COLLATE "C" PRIMARY KEY, -- a spool's id, or a table's name
    through_no BIGINT NOT NULL,              -- the last chunk or row that is in the tables above
    began_hour BIGINT NOT NULL               -- when counting began
);
