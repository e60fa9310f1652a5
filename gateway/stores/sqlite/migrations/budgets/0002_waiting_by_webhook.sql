-- What a webhook is to be called with next, found without reading all that waits.

DROP INDEX budget_alerts_waiting;
CREATE INDEX budget_alerts_waiting ON budget_alerts (webhook, attempts, alert_no) WHERE delivery = 'pending';
