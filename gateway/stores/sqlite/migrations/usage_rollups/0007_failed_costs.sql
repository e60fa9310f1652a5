-- What failed calls cost is kept by day in usage_rollups, of grain 12. A day has all of it where both revisions are equal:
-- NULL, or behind, where an earlier release added usage to the day.
ALTER TABLE usage_days ADD COLUMN failed_costs_revision INTEGER;
