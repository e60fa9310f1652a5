"""The tables in Postgres, a folder a kind of store."""
