-- What allowing an ask takes, where that is more than the word of who may answer.
ALTER TABLE asks ADD COLUMN proof TEXT CHECK (proof = 'passkey');
CREATE TRIGGER asks_are_immutable_in_their_proof
BEFORE UPDATE OF proof ON asks
BEGIN SELECT RAISE(ABORT, 'an ask is immutable once raised'); END;

-- Public keys of people. One that is removed stays, so that what it signed can be told whose it was.
CREATE TABLE passkeys (
    id         TEXT PRIMARY KEY,
    credential BLOB NOT NULL,
    -- As the authenticator gave it, a COSE key.
    key        BLOB NOT NULL,
    name       TEXT NOT NULL,
    -- The relying party: the host of the page where it was made, and the only one where it can be used.
    rp         TEXT NOT NULL,
    counter    INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    used_at    INTEGER,
    removed_at INTEGER
) STRICT;
CREATE UNIQUE INDEX passkeys_in_force ON passkeys (credential) WHERE removed_at IS NULL;
