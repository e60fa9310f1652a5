-- Versions of the rules that give calls to teams, projects or tags. Never edited once released: a change is a new file.

CREATE TABLE allocation_versions (
    target        TEXT NOT NULL,    -- the dimension: 'team', 'project', 'tag:customer'
    version       INTEGER NOT NULL, -- from 1 on; the highest one is applied
    rules         TEXT NOT NULL,    -- JSON: what each matches, and its shares
    note          TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    created_by    TEXT NOT NULL,
    PRIMARY KEY (target, version)
) STRICT;
