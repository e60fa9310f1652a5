-- Budgets and their alerts. Never edited once released: a change is a new file.

CREATE TABLE budgets (
    budget_id     TEXT COLLATE "C" PRIMARY KEY,
    budget_no     BIGINT NOT NULL UNIQUE, -- in the order in which they were made
    name          TEXT   COLLATE "C" NOT NULL UNIQUE,
    amount        TEXT   COLLATE "C" NOT NULL,  -- decimal string
    currency      TEXT   COLLATE "C" NOT NULL,
    period        TEXT   COLLATE "C" NOT NULL,
    filter        TEXT   COLLATE "C" NOT NULL,  -- JSON: dimension -> names, null for an unknown one
    thresholds    TEXT   COLLATE "C" NOT NULL,  -- JSON: [of, percent]
    stop_at       BIGINT,           -- percent; NULL: never
    webhook       TEXT COLLATE "C",             -- name in the configuration; NULL: the one of all budgets
    created_at_ms BIGINT NOT NULL,
    created_by    TEXT   COLLATE "C" NOT NULL,
    updated_at_ms BIGINT NOT NULL,
    updated_by    TEXT   COLLATE "C" NOT NULL
);

CREATE TABLE budget_alerts (
    alert_no    BIGINT  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    alert_id    TEXT    COLLATE "C" NOT NULL UNIQUE,
    budget_id   TEXT    COLLATE "C" NOT NULL REFERENCES budgets ON DELETE CASCADE,
    measure     TEXT    COLLATE "C" NOT NULL, -- 'actual' or 'forecast'
    percent     BIGINT  NOT NULL,
    period      TEXT    COLLATE "C" NOT NULL,
    first_day   BIGINT  NOT NULL, -- since 1970, UTC
    end_day     BIGINT  NOT NULL,
    at_ms       BIGINT  NOT NULL,
    amount      TEXT    COLLATE "C" NOT NULL, -- this and the next three: as they were then
    currency    TEXT    COLLATE "C" NOT NULL,
    spent       TEXT    COLLATE "C" NOT NULL,
    forecast    TEXT COLLATE "C",             -- NULL: none was made
    is_rearmed  BOOLEAN NOT NULL DEFAULT FALSE, -- a change of the budget un-crossed it: it may be crossed again
    webhook     TEXT COLLATE "C",             -- name in the configuration, '' for the one of all budgets; NULL: none is called
    delivery    TEXT    COLLATE "C" NOT NULL CHECK (delivery IN ('none', 'pending', 'delivered', 'failed')),
    attempts    BIGINT  NOT NULL DEFAULT 0,
    ended_at_ms BIGINT,           -- when it was delivered, or given up
    body        BYTEA             -- what is posted, on every try the same; NULL once that ended
);

-- Exactly one alert for each budget, threshold and period.
CREATE UNIQUE INDEX budget_alerts_once ON budget_alerts (budget_id, measure, percent, period, first_day) WHERE NOT is_rearmed;
CREATE INDEX budget_alerts_waiting ON budget_alerts (webhook, attempts, alert_no) WHERE delivery = 'pending';
CREATE INDEX budget_alerts_by_budget ON budget_alerts (budget_id, alert_no);
