-- The orders in which lists of insights are read by pages: the default one, and the latest.

CREATE INDEX insights_by_status ON insights (status, insight_no);
CREATE INDEX insights_by_update ON insights (last_updated_ms, insight_no);
