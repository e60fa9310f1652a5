-- Whose an insight is: one about a budget of some teams, or made by a caller who is limited to them.

ALTER TABLE insights ADD COLUMN reach TEXT NOT NULL DEFAULT '';  -- JSON object: dimension -> names; empty: of all
