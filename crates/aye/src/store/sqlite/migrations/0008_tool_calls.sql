-- An answer may name its ask by the agent's tool call, if that never named another.
CREATE INDEX asks_by_tool_call ON asks (agent, tool_use_id) WHERE tool_use_id IS NOT NULL;
