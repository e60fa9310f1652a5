"""The stores of control.db, one module a kind: all SQL of a gateway on them is here."""
