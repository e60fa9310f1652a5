-- How many bytes of the journal this gateway counts a second while it is behind; NULL where it is not, or is not the owner.
ALTER TABLE member ADD COLUMN bytes_per_s DOUBLE PRECISION;

-- Which cell this is, also where it is restored elsewhere, and how many commits its owners made: fewer than were seen
-- before are those of a restored database.
ALTER TABLE cell ADD COLUMN id TEXT NOT NULL DEFAULT gen_random_uuid()::text;
ALTER TABLE cell ADD COLUMN turn BIGINT NOT NULL DEFAULT 0;

-- Rows leave as fast as they come, so what they leave is given free without pauses.
ALTER TABLE journal SET (autovacuum_vacuum_cost_delay = 0, toast.autovacuum_vacuum_cost_delay = 0);
