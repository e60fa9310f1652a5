-- What a key stamps on records, what it may send in a minute, and the one key from before there were several.

ALTER TABLE keys ADD COLUMN labels TEXT NOT NULL DEFAULT '{}';  -- JSON object, names in order
ALTER TABLE keys ADD COLUMN requests_per_minute INTEGER CHECK (requests_per_minute >= 1);  -- NULL: no limit
ALTER TABLE keys ADD COLUMN bytes_per_minute INTEGER CHECK (bytes_per_minute >= 1);        -- NULL: no limit
ALTER TABLE keys ADD COLUMN is_legacy INTEGER NOT NULL DEFAULT 0 CHECK (is_legacy IN (0, 1));
CREATE UNIQUE INDEX one_legacy_key ON keys (is_legacy) WHERE is_legacy = 1;
