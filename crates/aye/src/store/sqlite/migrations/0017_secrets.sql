-- Answers to secret questions, from the moment they are recorded until they are delivered. Nothing else has them.
CREATE TABLE secrets (
    ask    TEXT PRIMARY KEY,
    answer TEXT NOT NULL
) STRICT;
