-- A browser's session ends by itself, and counts only with what the page signs with a key that it keeps.
ALTER TABLE tokens ADD COLUMN expires_at INTEGER;
ALTER TABLE tokens ADD COLUMN public_key BLOB;
ALTER TABLE tokens ADD COLUMN origin TEXT;
