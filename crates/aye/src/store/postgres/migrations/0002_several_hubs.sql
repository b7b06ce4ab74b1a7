-- Several hubs write at once, one group of changes after the other.

-- Which group had which number. A hub whose connection broke while it committed finds its own mark here, or does not.
CREATE TABLE groups (
    n    BIGINT PRIMARY KEY,
    mark TEXT COLLATE "C" NOT NULL
);

-- What each group changed of the rows that stand, so that other hubs need not read all of them again. Without a MAC there
-- is no such row any more.
CREATE TABLE stood (
    n    BIGINT NOT NULL,
    i    BIGINT NOT NULL,
    rows_of TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    mac  TEXT COLLATE "C",
    PRIMARY KEY (n, i)
);

-- What follows is written outside of groups. Its times are milliseconds of the server's own clock.
CREATE FUNCTION now_ms() RETURNS BIGINT LANGUAGE sql
AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000)::BIGINT $$;

-- What can be used once, soon, and at any hub: sign-in codes, challenges, addresses of previews.
CREATE TABLE tickets (
    purpose TEXT COLLATE "C" NOT NULL,
    name    TEXT COLLATE "C" NOT NULL,
    by      TEXT COLLATE "C" NOT NULL,
    detail  TEXT COLLATE "C" NOT NULL,
    until   BIGINT NOT NULL,
    mac     TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (purpose, name)
);
CREATE INDEX tickets_by_age ON tickets (until);

-- When any hub last heard of an agent.
CREATE TABLE life (
    agent TEXT COLLATE "C" PRIMARY KEY,
    heard BIGINT NOT NULL
);

-- The hubs that run, when each last said so, and when somebody who can answer was last connected to it.
CREATE TABLE hubs (
    id       TEXT COLLATE "C" PRIMARY KEY,
    host     TEXT COLLATE "C" NOT NULL,
    seen     BIGINT NOT NULL,
    attended BIGINT NOT NULL
);

-- What one hub does at a time, which hub that is, and until when.
CREATE TABLE leases (
    name  TEXT COLLATE "C" PRIMARY KEY,
    hub   TEXT COLLATE "C" NOT NULL,
    until BIGINT NOT NULL
);
