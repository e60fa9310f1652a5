-- Views of usage. Never edited once released: a change is a new file.

CREATE TABLE views (
    view_id       TEXT   COLLATE "C" PRIMARY KEY,
    view_no       BIGINT NOT NULL UNIQUE,             -- in the order in which they were made
    name          TEXT   COLLATE "C" NOT NULL UNIQUE,
    filter        TEXT   COLLATE "C" NOT NULL,        -- JSON: dimension -> names, null for an unknown one
    group_by      TEXT   COLLATE "C" NOT NULL,        -- dimensions, separated by commas
    interval      TEXT   COLLATE "C",                 -- 'hour' or 'day'; NULL: groups
    sort_key      TEXT   COLLATE "C" NOT NULL,
    sort_order    TEXT   COLLATE "C" NOT NULL,
    range         TEXT   COLLATE "C" NOT NULL,        -- 'last_7_days', 'this_month', …
    created_at_ms BIGINT NOT NULL,
    created_by    TEXT   COLLATE "C" NOT NULL,
    updated_at_ms BIGINT NOT NULL,
    updated_by    TEXT   COLLATE "C" NOT NULL
);
