-- spool.db, first layout. Released migrations are never edited: a change is the next file.

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- Records of one lane that were committed together. Never updated: what settling changes stands in `change`.
CREATE TABLE chunk (
    seq         INTEGER PRIMARY KEY,  -- one sequence for all lanes, in order of acceptance
    lane        TEXT    NOT NULL,     -- an own lane
    received_ms INTEGER NOT NULL,     -- wall clock at acceptance
    n           INTEGER NOT NULL,     -- records in body
    ends        BLOB    NOT NULL,     -- n little-endian uint32: where each record ends in body; then CRC-32 of body
    facts       BLOB    NOT NULL,     -- the ledger's evidence about these records, opaque here
    links       BLOB    NOT NULL,     -- the ledger's parent links of spans that are no records, opaque here
    body        BLOB    NOT NULL      -- the records, ready JSON, one after the other
);
CREATE INDEX chunk_lane ON chunk (lane, seq);

-- What settling decided about single records: dropped (record is null) or replaced by a merged record.
CREATE TABLE change (
    seq    INTEGER NOT NULL,
    idx    INTEGER NOT NULL,
    fate   TEXT    NOT NULL,          -- `duplicate.<reason>`, `suppressed.<reason>`, or `kept.merged`
    record BLOB,
    PRIMARY KEY (seq, idx)
) WITHOUT ROWID;

-- A lane reads the chunks of its source in order; next_* is the first record that no batch holds yet.
CREATE TABLE lane (
    name        TEXT PRIMARY KEY,
    source      TEXT    NOT NULL,     -- the own lane whose chunks it reads; itself for an own lane
    next_seq    INTEGER NOT NULL,
    next_idx    INTEGER NOT NULL,
    settled_seq INTEGER NOT NULL      -- chunks up to here may be frozen (own lanes only)
) WITHOUT ROWID;

-- A frozen batch: membership, id and time are fixed; gone once acked, buried or split.
CREATE TABLE batch (
    batch_id   TEXT PRIMARY KEY,
    lane       TEXT    NOT NULL,
    seq_lo     INTEGER NOT NULL,      -- first record
    idx_lo     INTEGER NOT NULL,
    seq_hi     INTEGER NOT NULL,      -- first record after it
    idx_hi     INTEGER NOT NULL,
    n          INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    attempts   INTEGER NOT NULL,
    sent_at    TEXT    NOT NULL
) WITHOUT ROWID;
CREATE INDEX batch_lane ON batch (lane, seq_lo, idx_lo);

CREATE TABLE dead_letter (
    id        INTEGER PRIMARY KEY,
    lane      TEXT    NOT NULL,
    buried_ms INTEGER NOT NULL,
    code      TEXT    NOT NULL,
    message   TEXT    NOT NULL,
    record    BLOB    NOT NULL
);
