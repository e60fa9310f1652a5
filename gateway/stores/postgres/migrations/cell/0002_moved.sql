-- Where what the cell held was moved; nobody owns it any more. NULL: it is here.
ALTER TABLE cell ADD COLUMN moved_to TEXT;
