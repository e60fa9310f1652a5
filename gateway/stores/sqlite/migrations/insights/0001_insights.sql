-- Insights. Never edited once released: a change is a new file.

CREATE TABLE insights (
    insight_id      TEXT PRIMARY KEY,   -- of cause, source and model
    insight_no      INTEGER NOT NULL UNIQUE, -- in the order in which they were found
    cause           TEXT NOT NULL,
    title           TEXT NOT NULL,
    category        TEXT NOT NULL,
    effort          TEXT NOT NULL,
    cost_impact     TEXT,               -- decimal string; NULL: unknown
    status          TEXT NOT NULL CHECK (status IN ('new', 'in_progress', 'on_hold', 'addressed', 'ignored')),
    last_updated_ms INTEGER NOT NULL
) STRICT;
