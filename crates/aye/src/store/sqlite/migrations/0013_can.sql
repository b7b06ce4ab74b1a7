-- What an agent can take may change while its ask is open; what is shown beside the ask stays as it was set.
DROP TRIGGER extras_are_set_once;
CREATE TRIGGER extras_are_set_once
BEFORE UPDATE OF extras ON asks WHEN NEW.extras IS NOT NULL AND (OLD.state <> 'open' OR
    (OLD.extras IS NOT NULL AND json_remove(OLD.extras, '$.can') IS NOT json_remove(NEW.extras, '$.can')))
BEGIN SELECT RAISE(ABORT, 'what is shown beside an ask is set once'); END;
