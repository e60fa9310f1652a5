-- Usage by tags, beside that of usage_rollups: used once tags are configured. Never edited once released.

CREATE TABLE usage_tag_rollups (
    span                  INTEGER NOT NULL, -- hours that a row sums: 1 or 24
    grain                 INTEGER NOT NULL, -- which dimensions are told apart: gateway/usage/sums/grains.py
    hour                  INTEGER NOT NULL, -- the first one, since 1970, UTC
    provider              INTEGER NOT NULL, -- this and the next twelve: ids of usage_names
    model                 INTEGER NOT NULL,
    team                  INTEGER NOT NULL,
    project               INTEGER NOT NULL,
    user                  INTEGER NOT NULL,
    device_id             INTEGER NOT NULL,
    service_name          INTEGER NOT NULL,
    key                   INTEGER NOT NULL,
    operation             INTEGER NOT NULL,
    source                INTEGER NOT NULL,
    currency              INTEGER NOT NULL,
    cost_source           INTEGER NOT NULL,
    tags                  INTEGER NOT NULL, -- id in usage_names of their set; of a grain of one tag that of its value
    cost_micro            INTEGER NOT NULL, -- 1e-6 of the currency
    cost_rest             INTEGER NOT NULL, -- 1e-18 of it, beside cost_micro
    calls                 INTEGER NOT NULL, -- what each sum means: gateway/usage/sums/tally.py
    failed_calls          INTEGER NOT NULL,
    calls_without_usage   INTEGER NOT NULL,
    calls_missing_usage   INTEGER NOT NULL,
    calls_without_cost    INTEGER NOT NULL,
    calls_without_price   INTEGER NOT NULL,
    input_tokens          INTEGER,          -- this and the next six: null until a record states them
    output_tokens         INTEGER,
    cache_read_tokens     INTEGER,
    cache_creation_tokens INTEGER,
    reasoning_tokens      INTEGER,
    cacheable_tokens      INTEGER,
    cached_tokens         INTEGER,
    PRIMARY KEY (
        span, grain, hour, provider, model, team, project, user, device_id, service_name, key, operation, source,
        currency, cost_source, tags
    )
) STRICT, WITHOUT ROWID;

-- What each set of tags holds.
CREATE TABLE usage_tag_values (
    set_id   INTEGER NOT NULL,
    tag      TEXT NOT NULL,
    value_id INTEGER NOT NULL,
    PRIMARY KEY (set_id, tag)
) STRICT, WITHOUT ROWID;

-- The tags that are kept, and the number that makes the grain of each.
CREATE TABLE usage_tags (
    tag    TEXT NOT NULL PRIMARY KEY,
    number INTEGER NOT NULL UNIQUE
) STRICT, WITHOUT ROWID;
