-- Insights get the layout that the gateway has (gateway/insights/migrations); 0003 brings these rows there.

ALTER TABLE insights RENAME TO insights_aside;
