"""The tables of control.db, a folder a kind of store."""
