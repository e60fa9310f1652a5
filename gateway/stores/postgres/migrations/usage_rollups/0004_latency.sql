-- How long calls took, by bucket. An hour has a part a commit; when it is over they become one, which its day gets too.
CREATE TABLE usage_latency (
    span BIGINT NOT NULL, -- hours of the period: 1 or 24
    hour BIGINT NOT NULL, -- the first one, since 1970, UTC
    part BIGINT NOT NULL,
    body BYTEA NOT NULL,  -- gateway/usage/sums/latency.py
    PRIMARY KEY (span, hour, part)
);

-- Hours before this one are in their days; later ones are only hours.
ALTER TABLE usage_rollup_state ADD COLUMN latency_to BIGINT NOT NULL DEFAULT 0;
