-- Answers belong to the API key that asked. Those of before have no key; they go on answering every key with the scope until
-- they are a week old, so that a request under way during the change is not done twice.
CREATE TABLE idempotency_by_key (
    key_id          TEXT NOT NULL,
    method          TEXT NOT NULL,
    path            TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    kept_at_ms      INTEGER NOT NULL,
    status          INTEGER NOT NULL,
    body            BLOB NOT NULL,
    retry_after_s   INTEGER,
    PRIMARY KEY (method, path, idempotency_key, key_id)
) STRICT, WITHOUT ROWID;
INSERT INTO idempotency_by_key
    SELECT '', method, path, idempotency_key, kept_at_ms, status, body, retry_after_s FROM idempotency;
DROP TABLE idempotency;
ALTER TABLE idempotency_by_key RENAME TO idempotency;
CREATE INDEX idempotency_by_age ON idempotency (kept_at_ms);
