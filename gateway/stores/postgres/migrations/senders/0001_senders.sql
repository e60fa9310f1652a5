-- Who sends: what an inbound key sent in one format, by service and product.
CREATE TABLE senders (
    sender_no BIGINT PRIMARY KEY,
    key       TEXT,          -- name of the inbound key; null on open intake
    format    TEXT NOT NULL,
    service   TEXT,          -- service.name; null where it is not stated
    product   TEXT NOT NULL, -- what its User-Agent begins with; empty where it names none
    figures   TEXT NOT NULL  -- JSON, as `gateway.fleet.senders.activity.Activity` has them
);
