-- A repeat under one enrollment_id is the same request, whatever was learnt since.
ALTER TABLE enrolments ADD COLUMN body BLOB; -- as it was sent first; NULL: it was not sent yet
