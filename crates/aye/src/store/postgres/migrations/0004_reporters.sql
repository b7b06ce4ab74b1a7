-- The number of the last report that each reporter of an agent made: one that comes again adds nothing to the conversation.
CREATE TABLE reporters (
    agent    TEXT COLLATE "C" NOT NULL,
    reporter TEXT COLLATE "C" NOT NULL,
    last     BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    PRIMARY KEY (agent, reporter)
);
CREATE INDEX reporters_by_age ON reporters (at);
