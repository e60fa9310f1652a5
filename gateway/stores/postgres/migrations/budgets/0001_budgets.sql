-- Budgets and their alerts. Never edited once released: a change is a new file.

CREATE TABLE budgets (
    budget_id     TEXT PRIMARY KEY,
    budget_no     BIGINT NOT NULL UNIQUE, -- in the order in which they were made
    name          TEXT   NOT NULL UNIQUE,
    amount        TEXT   NOT NULL,  -- decimal string
    currency      TEXT   NOT NULL,
    period        TEXT   NOT NULL,
    filter        TEXT   NOT NULL,  -- JSON: dimension -> names, null for an unknown one
    thresholds    TEXT   NOT NULL,  -- JSON: [of, percent]
    stop_at       BIGINT,           -- percent; NULL: never
    webhook       TEXT,             -- name in the configuration; NULL: the one of all budgets
    created_at_ms BIGINT NOT NULL,
    created_by    TEXT   NOT NULL,
    updated_at_ms BIGINT NOT NULL,
    updated_by    TEXT   NOT NULL
);

CREATE TABLE budget_alerts (
    alert_no    BIGINT  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    alert_id    TEXT    NOT NULL UNIQUE,
    budget_id   TEXT    NOT NULL REFERENCES budgets ON DELETE CASCADE,
    measure     TEXT    NOT NULL, -- 'actual' or 'forecast'
    percent     BIGINT  NOT NULL,
    period      TEXT    NOT NULL,
    first_day   BIGINT  NOT NULL, -- since 1970, UTC
    end_day     BIGINT  NOT NULL,
    at_ms       BIGINT  NOT NULL,
    amount      TEXT    NOT NULL, -- this and the next three: as they were then
    currency    TEXT    NOT NULL,
    spent       TEXT    NOT NULL,
    forecast    TEXT,             -- NULL: none was made
    is_rearmed  BOOLEAN NOT NULL DEFAULT FALSE, -- a change of the budget un-crossed it: it may be crossed again
    webhook     TEXT,             -- name in the configuration, '' for the one of all budgets; NULL: none is called
    delivery    TEXT    NOT NULL CHECK (delivery IN ('none', 'pending', 'delivered', 'failed')),
    attempts    BIGINT  NOT NULL DEFAULT 0,
    ended_at_ms BIGINT,           -- when it was delivered, or given up
    body        BYTEA             -- what is posted, on every try the same; NULL once that ended
);

-- Exactly one alert for each budget, threshold and period.
CREATE UNIQUE INDEX budget_alerts_once ON budget_alerts (budget_id, measure, percent, period, first_day) WHERE NOT is_rearmed;
CREATE INDEX budget_alerts_waiting ON budget_alerts (webhook, attempts, alert_no) WHERE delivery = 'pending';
CREATE INDEX budget_alerts_by_budget ON budget_alerts (budget_id, alert_no);
