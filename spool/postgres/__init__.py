"""A schema of the user's Postgres as the home of a spool: the extra `postgres`."""
