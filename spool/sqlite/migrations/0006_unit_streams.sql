-- Unit-cost streams are made before their first record, and deleted: either travels in its lane, in order with the records.
ALTER TABLE unit_stream ADD COLUMN creating INTEGER NOT NULL DEFAULT 0; -- items that its creation stands for and that no batch holds: pending
ALTER TABLE unit_stream ADD COLUMN deleting INTEGER NOT NULL DEFAULT 0; -- the same of its deletion: it, and the records that it took; 0: none waits
ALTER TABLE unit_stream ADD COLUMN asked_ms INTEGER NOT NULL DEFAULT 0; -- since when the first of them waits
ALTER TABLE unit_stream ADD COLUMN forced INTEGER NOT NULL DEFAULT 0;   -- whether the deletion takes a stream that holds records
ALTER TABLE unit_stream ADD COLUMN gone INTEGER NOT NULL DEFAULT 0;     -- whether nothing came to it since its deletion
ALTER TABLE unit_stream ADD COLUMN deleted_ms INTEGER;                  -- when its last deletion was asked; null: never
ALTER TABLE unit_stream ADD COLUMN blocked_until_ms INTEGER NOT NULL DEFAULT 0; -- until then the upstream may refuse its name
CREATE INDEX unit_stream_asked ON unit_stream (asked_ms) WHERE creating>0 OR deleting>0;
