// Drives the agent with claude-agent-sdk for TypeScript: a callback in this process that allows everything and records
// nothing. The arguments are the SDK's module, the agent and the folder it works in.
import { pathToFileURL } from 'node:url';

const [sdk, agent, folder] = process.argv.slice(2);
const { query } = await import(pathToFileURL(sdk).href);

async function* prompt() {
  yield { type: 'user', message: { role: 'user', content: 'measure' }, parent_tool_use_id: null, session_id: '' };
}

const canUseTool = async (_tool, input) => ({ behavior: 'allow', updatedInput: input });
const options = { pathToClaudeCodeExecutable: agent, cwd: folder, canUseTool };
for await (const message of query({ prompt: prompt(), options })) if (message.type === 'result') break;
