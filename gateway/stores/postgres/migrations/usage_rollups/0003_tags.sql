-- Usage by tags, beside that of usage_rollups: used once tags are configured. Never edited once released.

CREATE TABLE usage_tag_rollups (
    span                  BIGINT NOT NULL, -- hours that a row sums: 1 or 24
    grain                 BIGINT NOT NULL, -- which dimensions are told apart: gateway/usage/sums/grains.py
    hour                  BIGINT NOT NULL, -- the first one, since 1970, UTC
    provider              BIGINT NOT NULL, -- this and the next twelve: ids of usage_names
    model                 BIGINT NOT NULL,
    team                  BIGINT NOT NULL,
    project               BIGINT NOT NULL,
    "user"                BIGINT NOT NULL,
    device_id             BIGINT NOT NULL,
    service_name          BIGINT NOT NULL,
    key                   BIGINT NOT NULL,
    operation             BIGINT NOT NULL,
    source                BIGINT NOT NULL,
    currency              BIGINT NOT NULL,
    cost_source           BIGINT NOT NULL,
    tags                  BIGINT NOT NULL, -- id in usage_names of their set; of a grain of one tag that of its value
    cost_micro            BIGINT NOT NULL, -- 1e-6 of the currency
    cost_rest             BIGINT NOT NULL, -- 1e-18 of it, beside cost_micro
    calls                 BIGINT NOT NULL, -- what each sum means: gateway/usage/sums/tally.py
    failed_calls          BIGINT NOT NULL,
    calls_without_usage   BIGINT NOT NULL,
    calls_missing_usage   BIGINT NOT NULL,
    calls_without_cost    BIGINT NOT NULL,
    calls_without_price   BIGINT NOT NULL,
    input_tokens          BIGINT,          -- this and the next six: null until a record states them
    output_tokens         BIGINT,
    cache_read_tokens     BIGINT,
    cache_creation_tokens BIGINT,
    reasoning_tokens      BIGINT,
    cacheable_tokens      BIGINT,
    cached_tokens         BIGINT,
    PRIMARY KEY (
        span, grain, hour, provider, model, team, project, "user", device_id, service_name, key, operation, source,
        currency, cost_source, tags
    )
);

-- What each set of tags holds.
CREATE TABLE usage_tag_values (
    set_id   BIGINT NOT NULL,
    tag      TEXT COLLATE "C" NOT NULL,
    value_id BIGINT NOT NULL,
    PRIMARY KEY (set_id, tag)
);

-- The tags that are kept, and the number that makes the grain of each.
CREATE TABLE usage_tags (
    tag    TEXT COLLATE "C" PRIMARY KEY,
    number BIGINT NOT NULL UNIQUE
);
