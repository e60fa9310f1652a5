-- Counting knows a key by its id, which no renaming changes. It knew the keys of earlier releases by their names, and goes on so.

ALTER TABLE keys ADD COLUMN counted_by_name TEXT;  -- NULL: by its id
UPDATE keys SET counted_by_name = name;
