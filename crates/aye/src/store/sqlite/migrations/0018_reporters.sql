-- The number of the last report that each reporter of an agent made: one that comes again adds nothing to the conversation.
CREATE TABLE reporters (
    agent    TEXT NOT NULL,
    reporter TEXT NOT NULL,
    last     INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    PRIMARY KEY (agent, reporter)
) STRICT;
CREATE INDEX reporters_by_age ON reporters (at);
