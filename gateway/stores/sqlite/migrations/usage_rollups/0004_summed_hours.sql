-- Hours from the first to before the second have rows of every grain, as days have; the others of grains 0 and 1 alone.
ALTER TABLE usage_rollup_state ADD COLUMN summed_from INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage_rollup_state ADD COLUMN summed_to INTEGER NOT NULL DEFAULT 0;
