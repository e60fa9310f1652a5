-- Which dated names of models are versions of which model: `gpt-4o-2024-08-06` of `gpt-4o`.
CREATE TABLE usage_model_versions (
    version_id INTEGER PRIMARY KEY, -- id in usage_names, as the sums have it
    model_id   INTEGER NOT NULL     -- id of the model's own name
) STRICT;

CREATE INDEX usage_model_versions_of ON usage_model_versions (model_id);

-- 1 once the names of an earlier release are related.
ALTER TABLE usage_rollup_state ADD COLUMN are_versions_known INTEGER NOT NULL DEFAULT 0;
