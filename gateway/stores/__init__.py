"""Where a gateway keeps what it knows beside records: a home for each kind of store."""
