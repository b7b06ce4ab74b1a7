CREATE TABLE agents (
    id          TEXT PRIMARY KEY,
    kind        TEXT NOT NULL,
    reach       TEXT NOT NULL,
    host        TEXT NOT NULL,
    cwd         TEXT NOT NULL,
    title       TEXT NOT NULL,
    session     TEXT,
    pid         INTEGER,
    pid_started INTEGER,
    report      TEXT NOT NULL,
    lost        INTEGER NOT NULL DEFAULT 0,
    cost        REAL,
    created_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX agents_by_session ON agents (session) WHERE session IS NOT NULL;

-- Every process that was ever an agent's: one that names another later is still an agent's.
CREATE TABLE processes (
    pid     INTEGER NOT NULL,
    started INTEGER NOT NULL,
    agent   TEXT NOT NULL REFERENCES agents (id),
    PRIMARY KEY (pid, started, agent)
) STRICT, WITHOUT ROWID;
CREATE INDEX agents_alive ON agents (id) WHERE report <> 'ended';

CREATE TABLE asks (
    n           INTEGER PRIMARY KEY,
    id          TEXT NOT NULL UNIQUE,
    agent       TEXT NOT NULL REFERENCES agents (id),
    key         TEXT NOT NULL,
    cwd         TEXT NOT NULL,
    tool_use_id TEXT,
    kind        TEXT NOT NULL CHECK (kind IN ('question', 'permission', 'plan')),
    body        TEXT NOT NULL,
    digest      TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    deadline    INTEGER,
    state       TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'answered', 'expired', 'withdrawn')),
    answer      TEXT,
    by          TEXT,
    answer_key  TEXT,
    why         TEXT,
    ended_at    INTEGER,
    receipt     TEXT,
    evidence    TEXT,
    UNIQUE (agent, key)
) STRICT;
CREATE INDEX asks_open ON asks (agent) WHERE state = 'open';
-- What lists show must not be searched for among all that was ever answered.
CREATE INDEX asks_open_in_order ON asks (n) WHERE state = 'open';
CREATE INDEX asks_expired ON asks (n) WHERE state = 'expired';
CREATE INDEX asks_withdrawn ON asks (n) WHERE state = 'withdrawn';
CREATE INDEX asks_due ON asks (deadline) WHERE state = 'open' AND deadline IS NOT NULL;
CREATE INDEX asks_unsettled ON asks (agent) WHERE receipt = 'pending';
CREATE INDEX asks_by_agent ON asks (agent, n);

-- The program never does these things; the database refuses them to everybody else as well.
CREATE TRIGGER asks_are_immutable
BEFORE UPDATE OF n, id, agent, key, cwd, tool_use_id, kind, body, digest, created_at, deadline ON asks
BEGIN SELECT RAISE(ABORT, 'an ask is immutable once raised'); END;
CREATE TRIGGER asks_end_once
BEFORE UPDATE OF state, answer, by, answer_key, why, ended_at ON asks WHEN OLD.state <> 'open'
BEGIN SELECT RAISE(ABORT, 'an ended ask stays as it ended'); END;
CREATE TRIGGER asks_are_kept
BEFORE DELETE ON asks
BEGIN SELECT RAISE(ABORT, 'asks are kept'); END;

CREATE TABLE audit (
    seq    INTEGER PRIMARY KEY,
    at     INTEGER NOT NULL,
    kind   TEXT NOT NULL,
    who    TEXT NOT NULL,
    agent  TEXT,
    ask    TEXT,
    detail TEXT NOT NULL,
    hash   TEXT NOT NULL
) STRICT;
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit trail is append-only'); END;
CREATE TRIGGER audit_is_not_cut BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit trail is append-only'); END;

-- What the surfaces must be told, numbered without gaps. An ask's immutable part is not repeated here.
CREATE TABLE outbox (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    type    TEXT NOT NULL CHECK (type IN ('ask', 'agent', 'event', 'notice')),
    subject TEXT NOT NULL,
    detail  TEXT NOT NULL
) STRICT;
CREATE INDEX outbox_events ON outbox (subject, seq) WHERE type = 'event';

-- What the adapters must do: prompts, interrupts and stops.
CREATE TABLE commands (
    n     INTEGER PRIMARY KEY AUTOINCREMENT,
    agent TEXT NOT NULL REFERENCES agents (id),
    body  TEXT NOT NULL
) STRICT;
CREATE INDEX commands_by_agent ON commands (agent, n);

-- What people allowed for longer than once, where the agent has no rule of its own for it.
CREATE TABLE grants (
    id         TEXT PRIMARY KEY,
    agent      TEXT,
    folder     TEXT NOT NULL,
    tool       TEXT NOT NULL,
    body       TEXT NOT NULL,
    ended_at   INTEGER
) STRICT;
CREATE INDEX grants_in_force ON grants (folder, tool) WHERE ended_at IS NULL;

-- Outlines that are awaited instead of a plan.
CREATE TABLE outlines (
    agent TEXT PRIMARY KEY REFERENCES agents (id),
    body  TEXT NOT NULL
) STRICT;

CREATE TABLE tokens (
    id         TEXT PRIMARY KEY,
    hash       BLOB NOT NULL,
    role       TEXT NOT NULL CHECK (role IN ('agent', 'viewer', 'operator')),
    agent      TEXT,
    name       TEXT NOT NULL,
    surface    TEXT,
    -- Made by a person for an agent, and so not ended with it.
    kept       INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT;
