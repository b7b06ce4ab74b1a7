-- A MAC with the hub's key over what counts of a row: one that anybody else wrote is not acted upon.
ALTER TABLE grants ADD COLUMN mac TEXT;
ALTER TABLE outlines ADD COLUMN mac TEXT;
ALTER TABLE tokens ADD COLUMN mac TEXT;
ALTER TABLE passkeys ADD COLUMN mac TEXT;
ALTER TABLE agents ADD COLUMN mac TEXT;
ALTER TABLE asks ADD COLUMN mac TEXT;
ALTER TABLE commands ADD COLUMN mac TEXT;
ALTER TABLE memory ADD COLUMN mac TEXT;
