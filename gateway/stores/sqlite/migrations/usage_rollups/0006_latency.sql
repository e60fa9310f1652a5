-- How long calls took, by bucket. An hour has a part a commit; when it is over they become one, which its day gets too.
CREATE TABLE usage_latency (
    span INTEGER NOT NULL, -- hours of the period: 1 or 24
    hour INTEGER NOT NULL, -- the first one, since 1970, UTC
    part INTEGER NOT NULL,
    body BLOB NOT NULL,    -- gateway/usage/sums/latency.py
    PRIMARY KEY (span, hour, part)
) STRICT;

-- Hours before this one are in their days; later ones are only hours.
ALTER TABLE usage_rollup_state ADD COLUMN latency_to INTEGER NOT NULL DEFAULT 0;
