-- What a surface must remember across restarts: messages it sent, the tokens behind their buttons,
-- half-filled forms. Only the surface knows what it means.
CREATE TABLE memory (
    surface TEXT NOT NULL,
    kind    TEXT NOT NULL,
    key     TEXT NOT NULL,
    body    TEXT NOT NULL,
    PRIMARY KEY (surface, kind, key)
) STRICT, WITHOUT ROWID;
