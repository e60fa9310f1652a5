"""Stores that are written once for SQLite and Postgres."""
