-- A tag with the hub's key over the rows that stand, as of the newest line of the trail: who removes one of them, or puts
-- an earlier state of it back, cannot make another.
CREATE TABLE standing (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    tag TEXT NOT NULL
) STRICT;
