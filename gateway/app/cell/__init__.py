"""A gateway of a cell: many machines, one truth, in the user's Postgres.

Each is an edge (`edge`): it takes telemetry and keeps it in the journal. One of them is also the
owner (`owning`): a whole gateway (`gateway.app`) on homes in Postgres (`stores`) that counts the
journal, delivers, and has the page. `member` puts both together.
"""
