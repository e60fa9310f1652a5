-- A view keeps the whole question: whose days it asks for, what it is compared with, which names. `range` may
-- also be two times, '2026-11-02/2026-11-09'.

ALTER TABLE views ADD COLUMN time_zone TEXT COLLATE "C" NOT NULL DEFAULT 'UTC';
ALTER TABLE views ADD COLUMN compare TEXT COLLATE "C";   -- 'previous'; NULL: with nothing
ALTER TABLE views ADD COLUMN search TEXT COLLATE "C";    -- a text that names hold; NULL: any
