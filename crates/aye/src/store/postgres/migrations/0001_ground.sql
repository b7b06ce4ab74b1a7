-- The tables of `sqlite/migrations`, as they are after all of them. Numbers and times are BIGINT, and text is compared byte
-- by byte, so that a row has the same MAC in both databases.

-- Numbers are taken from here, inside the change that uses them: those of a change that is given up are used again, which
-- a SEQUENCE would leave as gaps.
CREATE TABLE numbers (
    name TEXT COLLATE "C" PRIMARY KEY,
    last BIGINT NOT NULL
);
INSERT INTO numbers VALUES ('asks', 0), ('outbox', 0), ('commands', 0);
CREATE FUNCTION next_number(of TEXT) RETURNS BIGINT LANGUAGE sql
AS $$ UPDATE numbers SET last = last + 1 WHERE name = of RETURNING last $$;

-- How many groups of changes were committed. A hub whose connection broke while it committed sees here whether it did.
CREATE TABLE commits (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    n   BIGINT NOT NULL
);
INSERT INTO commits VALUES (1, 0);

-- NULL for what is not JSON, and for what JSON cannot be read as text.
CREATE FUNCTION json_field(text TEXT, field TEXT) RETURNS TEXT LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
AS $$ BEGIN RETURN text::json ->> field; EXCEPTION WHEN OTHERS THEN RETURN NULL; END $$;

CREATE TABLE agents (
    id          TEXT COLLATE "C" PRIMARY KEY,
    kind        TEXT COLLATE "C" NOT NULL,
    reach       TEXT COLLATE "C" NOT NULL,
    host        TEXT COLLATE "C" NOT NULL,
    cwd         TEXT COLLATE "C" NOT NULL,
    first_cwd   TEXT COLLATE "C" NOT NULL,
    title       TEXT COLLATE "C" NOT NULL,
    session     TEXT COLLATE "C",
    tmux        TEXT COLLATE "C",
    pid         BIGINT,
    pid_started BIGINT,
    report      TEXT COLLATE "C" NOT NULL,
    lost        BIGINT NOT NULL DEFAULT 0,
    cost        DOUBLE PRECISION,
    created_at  BIGINT NOT NULL,
    mac         TEXT COLLATE "C"
);
CREATE INDEX agents_by_session ON agents (session) WHERE session IS NOT NULL;
CREATE INDEX agents_by_tmux ON agents (tmux) WHERE tmux IS NOT NULL;
CREATE INDEX agents_alive ON agents (id) WHERE report <> 'ended';

CREATE TABLE processes (
    pid     BIGINT NOT NULL,
    started BIGINT NOT NULL,
    agent   TEXT COLLATE "C" NOT NULL REFERENCES agents (id),
    PRIMARY KEY (pid, started, agent)
);

CREATE TABLE asks (
    n           BIGINT PRIMARY KEY DEFAULT next_number('asks'),
    id          TEXT COLLATE "C" NOT NULL UNIQUE,
    agent       TEXT COLLATE "C" NOT NULL REFERENCES agents (id),
    key         TEXT COLLATE "C" NOT NULL,
    cwd         TEXT COLLATE "C" NOT NULL,
    cwd_checked BIGINT NOT NULL DEFAULT 0,
    tool_use_id TEXT COLLATE "C",
    sub_agent   TEXT COLLATE "C",
    kind        TEXT COLLATE "C" NOT NULL CHECK (kind IN ('question', 'permission', 'plan')),
    body        TEXT COLLATE "C" NOT NULL,
    digest      TEXT COLLATE "C" NOT NULL,
    created_at  BIGINT NOT NULL,
    deadline    BIGINT,
    proof       TEXT COLLATE "C" CHECK (proof = 'passkey'),
    extras      TEXT COLLATE "C",
    state       TEXT COLLATE "C" NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'answered', 'expired', 'withdrawn')),
    answer      TEXT COLLATE "C",
    by          TEXT COLLATE "C",
    answer_key  TEXT COLLATE "C",
    why         TEXT COLLATE "C",
    ended_at    BIGINT,
    receipt     TEXT COLLATE "C",
    evidence    TEXT COLLATE "C",
    mac         TEXT COLLATE "C",
    UNIQUE (agent, key)
);
CREATE INDEX asks_open ON asks (agent) WHERE state = 'open';
CREATE INDEX asks_open_in_order ON asks (n) WHERE state = 'open';
CREATE INDEX asks_expired ON asks (n) WHERE state = 'expired';
CREATE INDEX asks_withdrawn ON asks (n) WHERE state = 'withdrawn';
CREATE INDEX asks_due ON asks (deadline) WHERE state = 'open' AND deadline IS NOT NULL;
CREATE INDEX asks_unsettled ON asks (agent) WHERE receipt = 'pending';
CREATE INDEX asks_by_agent ON asks (agent, n);

-- The program never does these things; the database refuses them to everybody else as well.
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
AS $$ BEGIN RAISE EXCEPTION '%', TG_ARGV[0]; END $$;
CREATE TRIGGER asks_are_immutable
BEFORE UPDATE OF n, id, agent, key, cwd, cwd_checked, tool_use_id, sub_agent, kind, body, digest, created_at, deadline, proof ON asks
FOR EACH ROW EXECUTE FUNCTION refuse('an ask is immutable once raised');
CREATE TRIGGER asks_end_once
BEFORE UPDATE OF state, answer, by, answer_key, why, ended_at ON asks
FOR EACH ROW WHEN (OLD.state <> 'open') EXECUTE FUNCTION refuse('an ended ask stays as it ended');
CREATE TRIGGER asks_are_kept
BEFORE DELETE ON asks FOR EACH ROW EXECUTE FUNCTION refuse('asks are kept');
CREATE TRIGGER extras_end_with_their_ask
BEFORE UPDATE OF extras ON asks FOR EACH ROW WHEN (NEW.extras IS NOT NULL AND OLD.state <> 'open')
EXECUTE FUNCTION refuse('what is shown beside an ask ends with it');

CREATE TABLE ask_counts (
    kind    TEXT COLLATE "C" NOT NULL,
    state   TEXT COLLATE "C" NOT NULL,
    receipt TEXT COLLATE "C" NOT NULL,
    asks    BIGINT NOT NULL,
    PRIMARY KEY (kind, state, receipt)
);
CREATE FUNCTION count_ask() RETURNS trigger LANGUAGE plpgsql
AS $$ BEGIN
    IF TG_OP = 'UPDATE' THEN
        UPDATE ask_counts SET asks = asks - 1
        WHERE kind = OLD.kind AND state = OLD.state AND receipt = coalesce(OLD.receipt, 'none');
    END IF;
    INSERT INTO ask_counts VALUES (NEW.kind, NEW.state, coalesce(NEW.receipt, 'none'), 1)
    ON CONFLICT (kind, state, receipt) DO UPDATE SET asks = ask_counts.asks + 1;
    RETURN NULL;
END $$;
CREATE TRIGGER asks_are_counted AFTER INSERT OR UPDATE OF state, receipt ON asks
FOR EACH ROW EXECUTE FUNCTION count_ask();

CREATE TABLE audit (
    seq    BIGINT PRIMARY KEY,
    at     BIGINT NOT NULL,
    kind   TEXT COLLATE "C" NOT NULL,
    who    TEXT COLLATE "C" NOT NULL,
    agent  TEXT COLLATE "C",
    ask    TEXT COLLATE "C",
    detail TEXT COLLATE "C" NOT NULL,
    hash   TEXT COLLATE "C" NOT NULL
);
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE OR DELETE ON audit
FOR EACH ROW EXECUTE FUNCTION refuse('the audit trail is append-only');
CREATE TRIGGER audit_is_not_emptied BEFORE TRUNCATE ON audit
FOR EACH STATEMENT EXECUTE FUNCTION refuse('the audit trail is append-only');

CREATE TABLE outbox (
    seq     BIGINT PRIMARY KEY DEFAULT next_number('outbox'),
    type    TEXT COLLATE "C" NOT NULL CHECK (type IN ('ask', 'agent', 'event', 'notice')),
    subject TEXT COLLATE "C" NOT NULL,
    detail  TEXT COLLATE "C" NOT NULL
);

CREATE TABLE conversations (
    seq     BIGINT PRIMARY KEY,
    agent   TEXT COLLATE "C" NOT NULL,
    at      BIGINT NOT NULL,
    partial TEXT COLLATE "C",
    bytes   BIGINT NOT NULL,
    detail  TEXT COLLATE "C" NOT NULL
);
CREATE INDEX conversations_by_agent ON conversations (agent, seq, bytes);
CREATE INDEX conversations_by_age ON conversations (at);
CREATE INDEX conversations_partial ON conversations (agent, partial) WHERE partial IS NOT NULL;

CREATE TABLE commands (
    n     BIGINT PRIMARY KEY DEFAULT next_number('commands'),
    agent TEXT COLLATE "C" NOT NULL REFERENCES agents (id),
    body  TEXT COLLATE "C" NOT NULL,
    mac   TEXT COLLATE "C"
);
CREATE INDEX commands_by_agent ON commands (agent, n);

CREATE TABLE grants (
    id       TEXT COLLATE "C" PRIMARY KEY,
    agent    TEXT COLLATE "C",
    folder   TEXT COLLATE "C" NOT NULL,
    tool     TEXT COLLATE "C" NOT NULL,
    body     TEXT COLLATE "C" NOT NULL,
    ended_at BIGINT,
    mac      TEXT COLLATE "C"
);
CREATE INDEX grants_in_force ON grants (folder, tool) WHERE ended_at IS NULL;

CREATE TABLE outlines (
    agent TEXT COLLATE "C" PRIMARY KEY REFERENCES agents (id),
    body  TEXT COLLATE "C" NOT NULL,
    mac   TEXT COLLATE "C"
);

CREATE TABLE tokens (
    id         TEXT COLLATE "C" PRIMARY KEY,
    hash       BYTEA NOT NULL,
    role       TEXT COLLATE "C" NOT NULL CHECK (role IN ('agent', 'viewer', 'operator')),
    agent      TEXT COLLATE "C",
    name       TEXT COLLATE "C" NOT NULL,
    surface    TEXT COLLATE "C",
    kept       BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT,
    expires_at BIGINT,
    public_key BYTEA,
    origin     TEXT COLLATE "C",
    mac        TEXT COLLATE "C"
);

CREATE TABLE passkeys (
    id         TEXT COLLATE "C" PRIMARY KEY,
    credential BYTEA NOT NULL,
    key        BYTEA NOT NULL,
    name       TEXT COLLATE "C" NOT NULL,
    rp         TEXT COLLATE "C" NOT NULL,
    counter    BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    used_at    BIGINT,
    removed_at BIGINT,
    mac        TEXT COLLATE "C"
);
CREATE UNIQUE INDEX passkeys_in_force ON passkeys (credential) WHERE removed_at IS NULL;

CREATE TABLE memory (
    surface TEXT COLLATE "C" NOT NULL,
    kind    TEXT COLLATE "C" NOT NULL,
    key     TEXT COLLATE "C" NOT NULL,
    body    TEXT COLLATE "C" NOT NULL,
    mac     TEXT COLLATE "C",
    PRIMARY KEY (surface, kind, key)
);

CREATE TABLE secrets (
    ask    TEXT COLLATE "C" PRIMARY KEY,
    answer TEXT COLLATE "C" NOT NULL
);

CREATE TABLE standing (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    tag TEXT COLLATE "C" NOT NULL
);
