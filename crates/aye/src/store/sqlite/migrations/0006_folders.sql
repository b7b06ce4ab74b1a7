-- The folder that an agent named first: what it names later is not followed on its word alone.
ALTER TABLE agents ADD COLUMN first_cwd TEXT NOT NULL DEFAULT '';
UPDATE agents SET first_cwd = cwd;
-- Whether the system itself told that the agent's process works in the ask's folder.
ALTER TABLE asks ADD COLUMN cwd_checked INTEGER NOT NULL DEFAULT 0;
CREATE TRIGGER asks_are_immutable_in_their_folder_check
BEFORE UPDATE OF cwd_checked ON asks
BEGIN SELECT RAISE(ABORT, 'an ask is immutable once raised'); END;
