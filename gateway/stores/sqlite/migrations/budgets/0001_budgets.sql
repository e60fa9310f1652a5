-- Budgets and their alerts. Never edited once released: a change is a new file.

CREATE TABLE budgets (
    budget_id     TEXT PRIMARY KEY,
    budget_no     INTEGER NOT NULL UNIQUE, -- in the order in which they were made
    name          TEXT NOT NULL UNIQUE,
    amount        TEXT NOT NULL,    -- decimal string
    currency      TEXT NOT NULL,
    period        TEXT NOT NULL,
    filter        TEXT NOT NULL,    -- JSON: dimension -> names, null for an unknown one
    thresholds    TEXT NOT NULL,    -- JSON: [of, percent]
    stop_at       INTEGER,          -- percent; NULL: never
    webhook       TEXT,             -- name in the configuration; NULL: the one of all budgets
    created_at_ms INTEGER NOT NULL,
    created_by    TEXT NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    updated_by    TEXT NOT NULL
) STRICT;

CREATE TABLE budget_alerts (
    alert_no       INTEGER PRIMARY KEY AUTOINCREMENT,
    alert_id       TEXT NOT NULL UNIQUE,
    budget_id      TEXT NOT NULL REFERENCES budgets ON DELETE CASCADE,
    measure        TEXT NOT NULL,    -- 'actual' or 'forecast'
    percent        INTEGER NOT NULL,
    period         TEXT NOT NULL,
    first_day      INTEGER NOT NULL, -- since 1970, UTC
    end_day        INTEGER NOT NULL,
    at_ms          INTEGER NOT NULL,
    amount         TEXT NOT NULL,    -- this and the next three: as they were then
    currency       TEXT NOT NULL,
    spent          TEXT NOT NULL,
    forecast       TEXT,             -- NULL: none was made
    is_rearmed     INTEGER NOT NULL DEFAULT 0, -- 1: a change of the budget un-crossed it, so that it may be crossed anew
    webhook        TEXT,             -- name in the configuration, '' for the one of all budgets; NULL: none was to be called
    delivery       TEXT NOT NULL CHECK (delivery IN ('none', 'pending', 'delivered', 'failed')),
    attempts       INTEGER NOT NULL DEFAULT 0,
    ended_at_ms    INTEGER,          -- when it was delivered, or given up
    body           BLOB              -- what is posted, on every try the same; NULL once that ended
) STRICT;

-- Exactly one alert for each budget, threshold and period.
CREATE UNIQUE INDEX budget_alerts_once ON budget_alerts (budget_id, measure, percent, period, first_day) WHERE NOT is_rearmed;
CREATE INDEX budget_alerts_waiting ON budget_alerts (alert_no) WHERE delivery = 'pending';
CREATE INDEX budget_alerts_by_budget ON budget_alerts (budget_id, alert_no);
