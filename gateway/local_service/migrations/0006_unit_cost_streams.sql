-- A stream that was deleted keeps its records until its name is used again.
ALTER TABLE unit_cost_streams ADD COLUMN deleted_at_ms INTEGER;  -- NULL: it is in use
