-- Versions of the rules that give calls to teams, projects or tags. Never edited once released: a change is a new file.

CREATE TABLE allocation_versions (
    target        TEXT   COLLATE "C" NOT NULL,    -- the dimension: 'team', 'project', 'tag:customer'
    version       BIGINT NOT NULL, -- from 1 on; the highest one is applied
    rules         TEXT   COLLATE "C" NOT NULL,    -- JSON: what each matches, and its shares
    note          TEXT   COLLATE "C" NOT NULL,
    created_at_ms BIGINT NOT NULL,
    created_by    TEXT   COLLATE "C" NOT NULL,
    PRIMARY KEY (target, version)
);
