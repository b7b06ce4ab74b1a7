-- What agents said and did, kept for each agent by age and size. The outbox keeps only the numbers of these events.
CREATE TABLE conversations (
    seq     INTEGER PRIMARY KEY,
    agent   TEXT NOT NULL,
    at      INTEGER NOT NULL,
    -- The id of a text that is not complete yet. The next version of it takes the place of this row.
    partial TEXT,
    bytes   INTEGER NOT NULL,
    detail  TEXT NOT NULL
) STRICT;
CREATE INDEX conversations_by_agent ON conversations (agent, seq, bytes);
CREATE INDEX conversations_by_age ON conversations (at);
CREATE INDEX conversations_partial ON conversations (agent, partial) WHERE partial IS NOT NULL;

INSERT INTO conversations (seq, agent, at, bytes, detail)
SELECT seq, subject, CAST(strftime('%s', 'now') AS INTEGER) * 1000, length(CAST(detail AS BLOB)), detail
FROM outbox WHERE type = 'event' AND detail ->> '$.delta' IS NULL;

-- The pieces of a text are repeated in its final form; only texts that have none are put together from theirs.
INSERT INTO conversations (seq, agent, at, partial, bytes, detail)
SELECT seq, subject, CAST(strftime('%s', 'now') AS INTEGER) * 1000, id, length(CAST(detail AS BLOB)), detail
FROM (
    SELECT max(seq) AS seq, subject, id,
        json_object('type', 'text', 'id', id, 'text', group_concat(delta, '' ORDER BY seq), 'partial', json('true')) AS detail
    FROM (
        SELECT seq, subject, detail ->> '$.id' AS id, detail ->> '$.delta' AS delta
        FROM outbox WHERE type = 'event' AND detail ->> '$.delta' IS NOT NULL
    )
    WHERE id IS NOT NULL AND (subject, id) NOT IN (
        SELECT subject, detail ->> '$.id' FROM outbox
        WHERE type = 'event' AND detail ->> '$.type' = 'text' AND detail ->> '$.text' IS NOT NULL AND detail ->> '$.id' IS NOT NULL
    )
    GROUP BY subject, id
);

DROP INDEX outbox_events;
UPDATE outbox SET detail = '' WHERE type = 'event';
