-- The statuses that an insight had, written with the change itself, whoever makes it: the last 50.

CREATE TABLE insight_history (
    change_no  INTEGER PRIMARY KEY AUTOINCREMENT,
    insight_id TEXT NOT NULL REFERENCES insights ON DELETE CASCADE,
    status     TEXT NOT NULL,
    at_ms      INTEGER NOT NULL,
    set_by     TEXT                     -- NULL: the rules
) STRICT;
CREATE INDEX insight_history_by_insight ON insight_history (insight_id, change_no);

CREATE TRIGGER insight_made AFTER INSERT ON insights BEGIN
    INSERT INTO insight_history (insight_id, status, at_ms, set_by)
        VALUES (new.insight_id, new.status, new.last_updated_ms, new.status_set_by);
END;

CREATE TRIGGER insight_moved AFTER UPDATE OF status ON insights WHEN new.status <> old.status BEGIN
    INSERT INTO insight_history (insight_id, status, at_ms, set_by)
        VALUES (new.insight_id, new.status, new.last_updated_ms, new.status_set_by);
    DELETE FROM insight_history WHERE insight_id = new.insight_id AND change_no <= (
        SELECT change_no FROM insight_history WHERE insight_id = new.insight_id ORDER BY change_no DESC LIMIT 1 OFFSET 50);
END;
