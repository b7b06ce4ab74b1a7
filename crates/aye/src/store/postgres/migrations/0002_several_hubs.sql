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
