-- Views of usage. Never edited once released: a change is a new file.

CREATE TABLE views (
    view_id       TEXT PRIMARY KEY,
    view_no       INTEGER NOT NULL UNIQUE, -- in the order in which they were made
    name          TEXT NOT NULL UNIQUE,
    filter        TEXT NOT NULL,    -- JSON: dimension -> names, null for an unknown one
    group_by      TEXT NOT NULL,    -- dimensions, separated by commas
    interval      TEXT,             -- 'hour' or 'day'; NULL: groups
    sort_key      TEXT NOT NULL,
    sort_order    TEXT NOT NULL,
    range         TEXT NOT NULL,    -- 'last_7_days', 'this_month', …
    created_at_ms INTEGER NOT NULL,
    created_by    TEXT NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    updated_by    TEXT NOT NULL
) STRICT;
