-- JSON, of the owner: senders whose metrics brought too many new series, and for how many ms each must wait; NULL: none.
ALTER TABLE member ADD COLUMN waiting_senders TEXT;
