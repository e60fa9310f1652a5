-- Working with insights: who gave one its status, whether its cause stands, and comments.

ALTER TABLE insights ADD COLUMN standing INTEGER NOT NULL DEFAULT 0; -- 1: the latest round that could tell found its cause
ALTER TABLE insights ADD COLUMN status_set_by TEXT;                  -- NULL: no person set the status
ALTER TABLE insights ADD COLUMN status_set_at_ms INTEGER;

UPDATE insights SET standing = status <> 'addressed';

CREATE TABLE insight_comments (
    comment_no    INTEGER PRIMARY KEY AUTOINCREMENT,
    comment_id    TEXT NOT NULL UNIQUE,
    insight_id    TEXT NOT NULL REFERENCES insights ON DELETE CASCADE,
    author        TEXT NOT NULL,        -- name of the key, at that time
    text          TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    updated_by    TEXT,                 -- NULL: as it was written
    updated_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX insight_comments_by_insight ON insight_comments (insight_id, comment_no);
