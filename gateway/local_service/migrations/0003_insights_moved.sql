-- A part of its own, since it comes after both service 0002 and the insights' own tables.

INSERT INTO insights (insight_id, insight_no, cause, title, category, effort, cost_impact, status, last_updated_ms)
    SELECT lower(hex(randomblob(16))), insight_no, '', title, category, effort, cost_impact, status, last_updated_ms
    FROM insights_aside;

DROP TABLE insights_aside;
