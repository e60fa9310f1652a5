-- Usage by hour and day, for questions about cost. Never edited once released: a change is a new file.

CREATE TABLE usage_names (
    id   INTEGER PRIMARY KEY, -- from 16 on; below stand what is no name: 0 unknown, 1 other, 2 forgotten
    name TEXT NOT NULL UNIQUE
) STRICT;

INSERT INTO usage_names (id, name) VALUES (15, '');

CREATE TABLE usage_rollups (
    span                  INTEGER NOT NULL, -- hours that a row sums: 1 or 24
    grain                 INTEGER NOT NULL, -- which dimensions are told apart: gateway/usage/grains.py
    hour                  INTEGER NOT NULL, -- the first one, since 1970, UTC
    provider              INTEGER NOT NULL, -- this and the next eleven: ids of usage_names
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
    cost_micro            INTEGER NOT NULL, -- 1e-6 of the currency
    cost_rest             INTEGER NOT NULL, -- 1e-18 of it, beside cost_micro
    calls                 INTEGER NOT NULL, -- what each sum means: gateway/usage/tally.py
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
        currency, cost_source
    )
) STRICT, WITHOUT ROWID;

CREATE TABLE usage_folded (
    hour  INTEGER PRIMARY KEY, -- a day whose rows were folded to make room
    level INTEGER NOT NULL
) STRICT;

CREATE TABLE usage_rollup_state (
    one             INTEGER PRIMARY KEY CHECK (one = 1),
    as_of_ms        INTEGER, -- all calls whose outcome was final by then are counted; null before the first count
    hours_from      INTEGER NOT NULL, -- the first hour whose rows of an hour were all kept
    room_checked    INTEGER NOT NULL, -- the hour in which the bounds on rows and names were checked last
    is_history_kept INTEGER NOT NULL  -- whether the usage of earlier releases was taken over
) STRICT;

INSERT INTO usage_rollup_state VALUES (1, NULL, 0, 0, 0);
