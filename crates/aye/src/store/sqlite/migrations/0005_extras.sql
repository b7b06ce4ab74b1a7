-- What is shown beside a permission while it is open: outside its digest, set once, and dropped when it ends.
ALTER TABLE asks ADD COLUMN extras TEXT;
CREATE TRIGGER extras_are_set_once
BEFORE UPDATE OF extras ON asks WHEN NEW.extras IS NOT NULL AND (OLD.extras IS NOT NULL OR OLD.state <> 'open')
BEGIN SELECT RAISE(ABORT, 'what is shown beside an ask is set once'); END;
