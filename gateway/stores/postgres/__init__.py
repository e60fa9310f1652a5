"""The user's Postgres as a home: the extra `postgres`."""
