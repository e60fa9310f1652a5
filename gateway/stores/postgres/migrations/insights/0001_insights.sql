-- Insights and the work with them. Never edited once released: a change is a new file.

CREATE TABLE insights (
    insight_id       TEXT    COLLATE "C" PRIMARY KEY, -- of cause, source and model
    insight_no       BIGINT  NOT NULL UNIQUE,         -- in the order in which they were found
    cause            TEXT    COLLATE "C" NOT NULL,    -- '' for one that was made by hand
    title            TEXT    COLLATE "C" NOT NULL,
    category         TEXT    COLLATE "C" NOT NULL,
    effort           TEXT    COLLATE "C" NOT NULL,
    cost_impact      TEXT    COLLATE "C",             -- decimal string; NULL: unknown
    status           TEXT    COLLATE "C" NOT NULL CHECK (status IN ('new', 'in_progress', 'on_hold', 'addressed', 'ignored')),
    last_updated_ms  BIGINT  NOT NULL,
    standing         BOOLEAN NOT NULL,                -- the latest round that could tell found its cause
    status_set_by    TEXT    COLLATE "C",             -- NULL: no person set the status
    status_set_at_ms BIGINT
);

-- The orders in which lists of insights are read by pages: the default one, and the latest.
CREATE INDEX insights_by_status ON insights (status, insight_no);
CREATE INDEX insights_by_update ON insights (last_updated_ms, insight_no);

CREATE TABLE insight_comments (
    comment_no    BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    comment_id    TEXT   COLLATE "C" NOT NULL UNIQUE,
    insight_id    TEXT   COLLATE "C" NOT NULL REFERENCES insights ON DELETE CASCADE,
    author        TEXT   COLLATE "C" NOT NULL,        -- name of the key, at that time
    text          TEXT   COLLATE "C" NOT NULL,
    created_at_ms BIGINT NOT NULL,
    updated_by    TEXT   COLLATE "C",                 -- NULL: as it was written
    updated_at_ms BIGINT NOT NULL
);
CREATE INDEX insight_comments_by_insight ON insight_comments (insight_id, comment_no);

-- The statuses that an insight had, written with the change itself, whoever makes it: the last 50.
CREATE TABLE insight_history (
    change_no  BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    insight_id TEXT   COLLATE "C" NOT NULL REFERENCES insights ON DELETE CASCADE,
    status     TEXT   COLLATE "C" NOT NULL,
    at_ms      BIGINT NOT NULL,
    set_by     TEXT   COLLATE "C"                     -- NULL: the rules
);
CREATE INDEX insight_history_by_insight ON insight_history (insight_id, change_no);

CREATE FUNCTION note_insight_status() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO insight_history (insight_id, status, at_ms, set_by)
        VALUES (new.insight_id, new.status, new.last_updated_ms, new.status_set_by);
    DELETE FROM insight_history WHERE insight_id = new.insight_id AND change_no <= (
        SELECT change_no FROM insight_history WHERE insight_id = new.insight_id ORDER BY change_no DESC LIMIT 1 OFFSET 50);
    RETURN NULL;
END $$;

CREATE TRIGGER insight_made AFTER INSERT ON insights FOR EACH ROW EXECUTE FUNCTION note_insight_status();
CREATE TRIGGER insight_moved AFTER UPDATE OF status ON insights FOR EACH ROW WHEN (new.status <> old.status)
    EXECUTE FUNCTION note_insight_status();
