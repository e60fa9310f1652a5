-- Chunks are compressed. Rows of earlier layouts stay as they are: nothing in them is compressed.

-- Which columns are one zstd frame each: 1 body, 2 facts, 4 links. The CRC-32 in `ends` is of body as it is stored; `ends`
-- states where records end in body once it is decompressed.
ALTER TABLE chunk ADD COLUMN packed INTEGER NOT NULL DEFAULT 0;
