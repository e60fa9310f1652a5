-- Who sends: what an inbound key sent in one format, by service and product.
CREATE TABLE senders (
    sender_no BIGINT PRIMARY KEY,
    key       TEXT COLLATE "C",          -- name of the inbound key; null on open intake
    format    TEXT COLLATE "C" NOT NULL,
    service   TEXT COLLATE "C",          -- service.name; null where it is not stated
    product   TEXT COLLATE "C" NOT NULL, -- what its User-Agent begins with; empty where it names none
    figures   TEXT COLLATE "C" NOT NULL  -- JSON, as `gateway.fleet.senders.activity.Activity` has them
);
