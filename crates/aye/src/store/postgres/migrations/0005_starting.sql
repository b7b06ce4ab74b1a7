-- A hub that starts looks for the newest line that begins a part of the trail, while all others wait for it.
CREATE INDEX audit_keys ON audit (seq) WHERE kind IN ('chain.keyed', 'chain.rekeyed');

ALTER TABLE known_hubs ADD COLUMN telegram_token TEXT COLLATE "C";

-- The machine or container whose hub saw the process. NULL if an earlier version wrote the row.
ALTER TABLE processes ADD COLUMN place TEXT COLLATE "C";
