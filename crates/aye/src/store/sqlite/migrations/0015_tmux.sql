-- The tmux session that an agent's terminal is in: people know the agent by its name.
ALTER TABLE agents ADD COLUMN tmux TEXT;
CREATE INDEX agents_by_tmux ON agents (tmux) WHERE tmux IS NOT NULL;
