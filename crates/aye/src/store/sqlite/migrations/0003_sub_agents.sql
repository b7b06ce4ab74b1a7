-- Which of an agent's sub-agents asks, where one does.
ALTER TABLE asks ADD COLUMN sub_agent TEXT;
CREATE TRIGGER asks_are_immutable_in_their_sub_agent
BEFORE UPDATE OF sub_agent ON asks
BEGIN SELECT RAISE(ABORT, 'an ask is immutable once raised'); END;
