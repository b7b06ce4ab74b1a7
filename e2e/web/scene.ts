/** A hub with a little of everything, as people have it in front of them. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { command, database, expect, type Ask, type Hub } from './support';

const config = `
[policy]
auto_approve = ["Read", "Glob", "Grep"]
[[policy.rules]]
name = "tests"
tool = "Bash"
command = "cargo test * [--workspace]"
action = "allow"
[[policy.rules]]
name = "no pushing by force"
tool = "Bash"
command = "git push --force*"
action = "deny"
message = "Push without --force, or ask me first."
`;

const plan = `# Search over titles and text

The list of notes gets a search field that filters as one types.

1. Add a **full-text index** to the schema, with a migration.
2. \`notes::search\` returns at most 50 hits, best first.
3. The field keeps its focus while results arrive.

\`\`\`sql
CREATE VIRTUAL TABLE notes_fts USING fts5(title, body);
\`\`\`

- [x] The schema is frozen otherwise
- [ ] Release notes
`;

export interface Scene {
  open: Ask[];
  question: Ask;
  permission: Ask;
  edit: Ask;
  plan: Ask;
  answered: Ask;
  agent: string;
}

export async function everything(hub: Hub): Promise<Scene> {
  writeFileSync(join(hub.home, 'config.toml'), config);
  await expect
    .poll(async () => (await hub.call<{ rules: unknown[] }>('GET', '/api/policy', hub.operator())).body.rules.length)
    .toBe(2);
  const cwd = '/home/me/src/notes';
  const notes = await hub.agent('notes', { kind: 'claude', reach: 'driven', title: 'Notes: search over titles and text', cwd, cost: 0.42 });
  const site = await hub.agent('site', { kind: 'claude', reach: 'hooked', title: 'Website: new landing page', cwd: '/home/me/src/site' });
  const deploy = await hub.agent('deploy', { kind: 'script', title: 'deploy.sh', cwd: '/srv/deploy' });
  await (await hub.agent('done', { kind: 'claude', reach: 'driven', title: 'Notes: dark mode', cwd })).register({ state: 'idle' });

  const answered = await notes.raise('question', database);
  await hub.answer(answered, { answers: [{ selected: ['SQLite'], notes: 'keep it to one file' }] });
  await notes.receipt(answered, 'delivered');
  await notes.receipt(answered, 'confirmed');
  const refused = await notes.raise('plan', { plan: plan.replace('at most 50 hits, best first', 'all hits') });
  await hub.answer(refused, { decision: 'deny', message: 'Not all hits: at most 50, best first.' });
  await notes.receipt(refused, 'delivered');
  await notes.receipt(refused, 'confirmed');
  for (const text of ['cargo test --workspace', 'git push --force', 'cargo test search']) await notes.raise('permission', command(text));
  const grant = await notes.raise('permission', command('make docs', [{ scope: 'once' }, { scope: 'always', kept_by: 'hub' }]));
  await hub.answer(grant, { decision: 'allow', scope: 'always' });
  await notes.raise('permission', command('make docs'));

  const question = await deploy.raise('question', {
    questions: [
      {
        question: 'How should the list of notes look?',
        header: 'Layout',
        free_text: true,
        options: [
          { label: 'Rows', description: 'Dense: one line a note, sorted by date', preview: 'Groceries                 today\nIdeas for the cabin      monday\nBooks                    12 May' },
          { label: 'Cards', description: 'Airy: title and the first lines', preview: '┌───────────┐ ┌───────────┐\n│ Groceries │ │ Ideas     │\n│ milk, tea │ │ the cabin │\n└───────────┘ └───────────┘' },
        ],
      },
      {
        question: 'What should the first release have?',
        header: 'Features',
        multi_select: true,
        free_text: true,
        options: [
          { label: 'Dark mode', description: 'Follows the system' },
          { label: 'Search', description: 'Over titles and text' },
          { label: 'Export, as Markdown', description: 'One file a note' },
        ],
      },
    ],
  });
  const permission = await site.raise(
    'permission',
    {
      ...command('npm run build && rsync -a --delete dist/ web@example.org:/srv/www/', [
        { scope: 'once' },
        { scope: 'session', rule: 'npm run build, until this session ends' },
        { scope: 'always', kept_by: 'hub' },
      ]),
      input: { command: 'npm run build && rsync -a --delete dist/ web@example.org:/srv/www/', description: 'Build the site and publish it' },
    },
    { timeout: '45m' },
  );
  const edit = await site.raise('permission', {
    tool: 'Edit',
    input: {
      file_path: 'src/limits.rs',
      old_string: '/// How many notes fit on a page.\nconst MOST: usize = 10;',
      new_string: '/// How many notes fit on a page; searching shows as many.\nconst MOST: usize = 50;',
    },
    before: {
      places: [
        { old_start: 3, new_start: 3, above: ['//! What a page may hold.', ''], below: ['', 'pub fn fits(notes: &[Note]) -> bool {'] },
      ],
    },
    scopes: [{ scope: 'once' }, { scope: 'session', rule: 'Edit files in src/ until this session ends' }],
  });
  await notes.say(
    { type: 'prompt', text: 'Add a search over titles and text.' },
    { type: 'text', id: 't1', text: 'I read the **schema** first, then the list view. Two things matter here:\n\n1. `notes` has no index over text.\n2. The list is rendered anew for every key.' },
    { type: 'tool', id: 'toolu_1', name: 'Read', input: { file_path: 'src/schema.sql' } },
    { type: 'tool_result', id: 'toolu_1', failed: false, text: 'CREATE TABLE notes (…);', duration_ms: 40 },
    { type: 'tool', id: 'toolu_2', name: 'Bash', input: { command: 'cargo test --workspace' } },
    { type: 'tool_result', id: 'toolu_2', failed: true, text: 'test search::finds_titles ... FAILED', duration_ms: 8200 },
    { type: 'text', id: 't2', text: 'The new test fails, as it should. Before I change the schema I would like your approval of the plan.' },
    { type: 'tool', id: 'toolu_plan', name: 'ExitPlanMode', input: { plan } },
  );
  const planned = await notes.raise('plan', { plan }, { tool_use_id: 'toolu_plan' });
  const open = [question, permission, edit, planned];
  return { open, question, permission, edit, plan: planned, answered, agent: 'notes' };
}
