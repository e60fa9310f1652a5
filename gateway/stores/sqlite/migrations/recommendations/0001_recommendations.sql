-- What could be saved, and what was decided about it. Never edited once released: a change is a new file.

CREATE TABLE recommendations (
    recommendation_id TEXT PRIMARY KEY, -- made of its kind, service, provider and model
    recommendation_no INTEGER NOT NULL, -- in the order in which they were found
    body              TEXT NOT NULL     -- JSON: gateway/usage/recommendations/recommendation.py
) STRICT;
