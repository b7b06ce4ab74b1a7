-- What an agent's mode asks for, as its adapter reports it. NULL where it was never reported.
ALTER TABLE agents ADD COLUMN asks_for TEXT;
