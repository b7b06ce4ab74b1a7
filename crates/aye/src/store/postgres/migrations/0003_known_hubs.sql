-- The hubs that use this database. Each keeps its own row, outside of all groups of changes.
CREATE TABLE known_hubs (
    id             TEXT COLLATE "C" PRIMARY KEY,
    host           TEXT COLLATE "C" NOT NULL,
    pid            BIGINT NOT NULL,
    version        TEXT COLLATE "C" NOT NULL,
    started_at     TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    seen_at        TIMESTAMPTZ NOT NULL,
    -- MACs over the files that all hubs must have in common.
    chain_key      TEXT COLLATE "C",
    agent_key      TEXT COLLATE "C",
    operator_token TEXT COLLATE "C",
    config         TEXT COLLATE "C"
);
