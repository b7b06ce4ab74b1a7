import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { violations } from './axe';
import { command, database, expect, outcome, press, test } from './support';

test('the list shows who works, who waits and who has ended', async ({ hub, page }) => {
  const busy = await hub.agent('busy', { kind: 'claude', reach: 'driven', title: 'Add a parser' });
  const stuck = await hub.agent('stuck', { kind: 'claude', title: 'Fix the build' });
  const gone = await hub.agent('gone', { title: 'Old work' });
  await gone.register({ state: 'ended' });
  await stuck.raise('question', database);
  await hub.open(page, '#/agents');
  const list = page.getByRole('list', { name: 'Agents' });
  await expect(list.getByRole('listitem')).toHaveCount(2);
  await expect(list.getByRole('listitem').first()).toContainText(/Fix the build.*Waiting for you/s);
  await expect(list.getByRole('listitem').nth(1)).toContainText('Claude, run by aye');
  await expect(list.getByLabel('1 waiting')).toBeVisible();
  await expect(list.getByRole('listitem').nth(1)).toContainText(/Add a parser.*Working/s);
  await page.getByRole('checkbox', { name: 'Show ended' }).check();
  await expect(list.getByRole('listitem')).toHaveCount(3);
  await busy.register({ state: 'idle' });
  await expect(list.getByRole('listitem').nth(1)).toContainText('Idle');
  await page.getByRole('link', { name: /Fix the build/ }).click();
  await expect(page.getByRole('heading', { name: 'Fix the build' })).toBeVisible();
});

test('an agent whose mode asks for nothing is shown as that, as the mode changes', async ({ hub, page }) => {
  const bot = await hub.agent('bot', { kind: 'claude', reach: 'hooked', title: 'Notes', asks: 'everything' });
  await hub.open(page, '#/agents');
  const row = page.getByRole('list', { name: 'Agents' }).getByRole('listitem');
  await expect(row).toContainText('Notes');
  await expect(row).not.toContainText('Asks for nothing');
  await bot.register({ asks: 'nothing' });
  await expect(row).toContainText('Asks for nothing');
  expect(await violations(page)).toEqual([]);
  await page.getByRole('link', { name: /Notes/ }).click();
  const header = page.locator('.view > header');
  await expect(header).toContainText('Asks for nothing');
  await bot.register({ asks: 'some' });
  await expect(header).toContainText('Does some things unasked');
  await bot.register({ asks: 'everything' });
  await expect(header).not.toContainText('unasked');
});

test('a conversation streams in, with tool calls that open, and asks in their place', async ({ hub, page }) => {
  const bot = await hub.agent('bot', { kind: 'claude', reach: 'driven', title: 'Notes' });
  await bot.say({ type: 'prompt', text: 'add a test' });
  await hub.open(page, '#/agents/bot');
  const talk = page.getByRole('list', { name: 'Conversation' });
  await expect(talk).toContainText('add a test');
  await bot.say({ type: 'text', id: 't1', delta: 'I look at ' }, { type: 'text', id: 't1', delta: 'the **parser**' });
  await expect(talk).toContainText('I look at the **parser**');
  await bot.say({ type: 'text', id: 't1', text: 'I look at the **parser** first.' });
  await expect(talk.locator('strong', { hasText: 'parser' })).toBeVisible();
  await expect(talk).not.toContainText('**parser**');
  await bot.say({ type: 'tool', id: 'toolu_1', name: 'Bash', input: { command: 'cargo test' } });
  const call = talk.locator('details').first();
  await expect(call).toContainText('Running');
  const ask = await bot.raise('permission', command('cargo test'), { tool_use_id: 'toolu_1' });
  await expect(call).toContainText('Waiting for you');
  const item = talk.getByRole('listitem');
  await expect(item.nth(2)).toContainText('Bash');
  await expect(item.nth(3).getByRole('article')).toBeVisible();
  await press(page, 'Allow once');
  await expect(outcome(page)).toContainText('Allowed once');
  expect((await hub.ask(ask.id)).state).toBe('answered');
  await bot.say({ type: 'tool_result', id: 'toolu_1', failed: false, text: 'all 12 tests passed', duration_ms: 1200 });
  await expect(call).toContainText('Done in 1.2 s');
  await call.locator('summary').click();
  await expect(call.getByRole('group', { name: 'Result', exact: true })).toHaveText('all 12 tests passed');
  await bot.say({ type: 'turn', error: false, cost: 0.0123, duration_ms: 5100 }, { type: 'ended', code: 0 });
  await expect(talk).toContainText('Turn finished in 5.1 s · $0.0123');
  await page.reload();
  await expect(talk).toContainText('I look at the parser first.');
});

test('an ask that arrives in the middle of a text waits until the text has settled', async ({ hub, page }) => {
  const bot = await hub.agent('bot', { kind: 'claude', reach: 'driven' });
  await hub.open(page, '#/agents/bot');
  await expect(page.getByText('No messages yet.')).toBeVisible();
  await bot.say({ type: 'text', id: 't1', delta: 'Before I ask, a word ' });
  await expect(page.getByText('Before I ask')).toBeVisible();
  await bot.raise('question', database);
  await expect(page.getByText('A request is waiting; it appears when the agent has finished its sentence.')).toBeVisible();
  await expect(page.getByRole('article')).toHaveCount(0);
  await bot.say({ type: 'text', id: 't1', text: 'Before I ask, a word of warning.' });
  await expect(page.getByRole('article')).toBeVisible();
  await expect(page.getByText('A request is waiting')).toHaveCount(0);
});

test('a text that never settles does not hide an ask for ever', async ({ hub, page }) => {
  const bot = await hub.agent('bot', { kind: 'claude', reach: 'driven' });
  await hub.open(page, '#/agents/bot');
  await expect(page.getByText('No messages yet.')).toBeVisible();
  await bot.say({ type: 'text', id: 't1', delta: 'I was interr' });
  await expect(page.getByText('I was interr')).toBeVisible();
  await bot.raise('question', database);
  await expect(page.getByRole('article')).toBeVisible();
});

test('a driven agent takes prompts, an interrupt and a stop', async ({ hub, page }) => {
  const bot = await hub.agent('bot', { kind: 'claude', reach: 'driven' });
  await hub.open(page, '#/agents/bot');
  const prompt = page.getByRole('textbox', { name: 'Message to the agent' });
  await expect(page.getByRole('button', { name: 'Send' })).toBeDisabled();
  await prompt.fill('now the docs');
  await page.reload();
  await expect(prompt).toHaveValue('now the docs');
  await prompt.press('Control+Enter');
  await expect(page.getByText('Sent.')).toBeVisible();
  await expect(prompt).toHaveValue('');
  await page.getByRole('button', { name: 'Interrupt' }).click();
  await expect(page.getByText('Interrupting…')).toBeVisible();
  await page.getByRole('button', { name: 'End run…' }).click();
  await page.getByRole('button', { name: 'Keep running' }).click();
  await page.getByRole('button', { name: 'End run…' }).click();
  await page.getByRole('button', { name: 'End this run' }).click();
  await expect(page.getByText('Stopping…')).toBeVisible();
  const told = (await bot.commands()).map((each) => JSON.stringify(each));
  expect(told).toHaveLength(3);
  expect(told[0]).toContain('now the docs');
  expect(told[1]).toContain('interrupt');
  expect(told[2]).toContain('stop');
});

test('an agent that is not driven has no box for prompts', async ({ hub, page }) => {
  await hub.agent('bot', { reach: 'script' });
  await hub.open(page, '#/agents/bot');
  await expect(page.getByText('No messages yet.')).toBeVisible();
  await expect(page.getByRole('textbox', { name: 'Message to the agent' })).toHaveCount(0);
});

test('a run that cannot be started says why and keeps what was typed', async ({ hub, page }) => {
  await hub.open(page, '#/start');
  await expect(page.getByRole('button', { name: 'Start' })).toBeDisabled();
  await page.getByRole('combobox', { name: 'Folder' }).fill('/no/such/folder');
  await page.getByRole('textbox', { name: 'Prompt' }).fill('do it');
  await page.getByRole('button', { name: 'Start' }).click();
  await expect(page.getByRole('alert')).toBeVisible();
  await expect(page.getByRole('combobox', { name: 'Folder' })).toHaveAttribute('aria-invalid', 'true');
  await expect(page.getByRole('textbox', { name: 'Prompt' })).toHaveValue('do it');
});

test('a run is started with the chosen agent, in a mode that this agent has', async ({ hub, page }) => {
  writeFileSync(join(hub.home, 'config.toml'), '[agents.codex]\ncommand = "/bin/sh"\n');
  const sent: unknown[] = [];
  await page.route('**/api/agents', async (route) => {
    if (route.request().method() !== 'POST') return route.fallback();
    sent.push(route.request().postDataJSON());
    await route.fulfill({ status: 422, json: { error: 'not now' } });
  });
  await hub.open(page, '#/start');
  await page.getByRole('combobox', { name: 'Folder' }).fill('/');
  await page.getByRole('textbox', { name: 'Prompt' }).fill('do it');
  await page.getByRole('combobox', { name: 'Mode' }).selectOption('plan');
  await page.getByRole('button', { name: 'Start' }).click();
  await expect(page.getByRole('alert')).toHaveText('not now');
  await page.getByRole('combobox', { name: 'Agent' }).selectOption('codex');
  await expect(page.getByRole('combobox', { name: 'Mode' })).toHaveValue('default');
  await expect(page.getByRole('combobox', { name: 'Mode' }).locator('option[value="plan"]')).toHaveCount(0);
  await page.getByRole('combobox', { name: 'Mode' }).selectOption('on-request');
  await page.getByRole('button', { name: 'Start' }).click();
  await expect.poll(() => sent).toEqual([
    { cwd: '/', prompt: 'do it', mode: 'plan' },
    { cwd: '/', prompt: 'do it', mode: 'on-request', agent: 'codex' },
  ]);
});

test('what was decided before is a line that opens, and only one request at a time can be decided on', async ({ hub, page }) => {
  const bot = await hub.agent('bot', { kind: 'claude', reach: 'driven' });
  const old = await bot.raise('permission', command('make old'));
  await hub.answer(old, { decision: 'deny', message: 'not now', interrupt: false });
  await bot.raise('permission', command('make one'));
  const second = await bot.raise('permission', command('make two'));
  await hub.open(page, '#/agents/bot');
  await expect(page.getByRole('article')).toHaveCount(1);
  await expect(page.getByRole('article')).toContainText('make one');
  await expect(page.getByRole('button', { name: 'Allow once' })).toHaveCount(1);
  const line = page.getByRole('button', { name: /make old.*Denied: not now/ });
  await line.click();
  await expect(page.getByRole('article')).toHaveCount(2);
  await line.click();
  await press(page, 'Allow once');
  await expect(page.getByRole('article').filter({ hasText: 'make one' })).toContainText('Answered');
  await expect(page.getByRole('article').filter({ hasText: 'make two' })).toBeVisible();
  expect(await violations(page)).toEqual([]);
  await page.reload();
  await expect(page.getByRole('article')).toHaveCount(1);
  expect((await hub.ask(second.id)).state).toBe('open');
});

test('tool results show their pictures, and turns what they took', async ({ hub, page }) => {
  const bot = await hub.agent('bot', { kind: 'claude', reach: 'driven' });
  const dot = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
  await bot.say(
    { type: 'tool', id: 'u1', name: 'Screenshot', input: {} },
    { type: 'tool_result', id: 'u1', failed: false, text: '', images: [{ media_type: 'image/png', data: dot }, { media_type: 'image/svg+xml', data: dot }, { media_type: 'image/png', data: 'x" onerror="y' }] },
    { type: 'tool', id: 'u2', name: 'Read', input: { file_path: 'a' } },
    { type: 'tool_result', id: 'u2', failed: false, text: 'a' },
    { type: 'turn', error: false, cost: 0.5, duration_ms: 1000, tokens: { input: 10, output: 5, cache_read: 2000, cache_written: 0 } },
    { type: 'turn', error: false, cost: 0.75, duration_ms: 1000, tokens: { input: 1, output: 2 } },
  );
  await hub.open(page, '#/agents/bot');
  await page.locator('.conversation details summary').first().click();
  await page.locator('.conversation details summary').nth(1).click();
  expect(await violations(page)).toEqual([]);
  await expect(page.locator('.conversation img')).toHaveCount(1);
  expect(await page.locator('.conversation img').evaluate((image: HTMLImageElement) => image.decode().then(() => image.naturalWidth))).toBe(1);
  const talk = page.getByRole('list', { name: 'Conversation' });
  await expect(talk).toContainText('2,010 tokens in, 5 out · $0.50');
  await expect(talk).toContainText('1 token in, 2 out · $0.25');
});

test('a long conversation leads back to its end', async ({ hub, page }) => {
  const bot = await hub.agent('bot', { kind: 'claude', reach: 'driven' });
  for (let i = 0; i < 60; i += 1) await bot.say({ type: 'text', id: `t${i}`, text: `Paragraph number ${i}.` });
  await hub.open(page, '#/agents/bot');
  await expect(page.getByText('Paragraph number 59.')).toBeInViewport();
  await expect(page.getByRole('button', { name: 'Jump to latest ↓' })).toHaveCount(0);
  await page.getByText('Paragraph number 59.').hover();
  await expect(async () => {
    await page.mouse.wheel(0, -500);
    await expect(page.getByText('Paragraph number 0.')).toBeInViewport({ timeout: 100 });
  }).toPass();
  await page.getByRole('button', { name: 'Jump to latest ↓' }).click();
  await expect(page.getByText('Paragraph number 59.')).toBeInViewport();
  await expect(page.getByRole('button', { name: 'Jump to latest ↓' })).toHaveCount(0);
});

test('a conversation longer than a page is read back to its beginning, and nothing moves under the eye', async ({ hub, page }) => {
  const bot = await hub.agent('bot', { kind: 'claude', reach: 'driven' });
  const said = Array.from({ length: 1200 }, (_, i) => ({ type: 'text', id: `t${i}`, text: `Paragraph number ${i}.` }));
  for (let i = 0; i < said.length; i += 300) await bot.say(...said.slice(i, i + 300));
  await hub.open(page, '#/agents/bot');
  await expect(page.getByText('Paragraph number 1199.')).toBeInViewport();
  await page.getByText('Paragraph number 1199.').hover();
  let seen = 1200;
  await expect(async () => {
    await page.mouse.wheel(0, -2_000);
    // The topmost paragraph only ever gets older, whatever is read before it.
    const first = await page.locator('.conversation [role=listitem]').evaluateAll((rows) => {
      const top = rows.find((row) => row.getBoundingClientRect().bottom > 200);
      return Number(/number (\d+)/.exec(top?.textContent ?? '')?.[1]);
    });
    expect(first).toBeLessThanOrEqual(seen);
    seen = first;
    await expect(page.getByText('Paragraph number 0.', { exact: true })).toBeInViewport({ timeout: 100 });
  }).toPass({ intervals: [50] });
});

test('text that streams fast is whole, follows its end, and pulls nobody away who reads further up', async ({ hub, page }) => {
  const bot = await hub.agent('bot', { kind: 'claude', reach: 'driven' });
  await hub.open(page, '#/agents/bot');
  await expect(page.getByText('No messages yet.')).toBeVisible();
  const line = (i: number): string => `Line ${i}: a **word** and some \`code\`.${i % 8 === 7 ? '\n\n' : '\n'}`;
  const stream = async (from: number, to: number): Promise<void> => {
    for (let i = from; i < to; i += 40) {
      await bot.say(...Array.from({ length: 40 }, (_, k) => ({ type: 'text', id: 't1', delta: line(i + k) })));
    }
  };
  await stream(0, 800);
  await expect(page.getByText('Line 799:')).toBeInViewport();
  const rows = page.locator('.conversation [role=listitem]');
  expect(await rows.count()).toBeLessThan(40);
  await rows.last().hover();
  await page.mouse.wheel(0, -900);
  await expect(page.getByRole('button', { name: 'Jump to latest ↓' })).toBeVisible();
  const inSight = (): Promise<[string, number][]> =>
    rows.evaluateAll((all) => all.map((row): [string, number] => [row.textContent ?? '', row.getBoundingClientRect().top]).filter(([, top]) => top > 200 && top < 600));
  // A wheel goes on for a moment.
  let before = await inSight();
  await expect(async () => {
    const now = await inSight();
    const rests = JSON.stringify(now) === JSON.stringify(before);
    before = now;
    expect(rests).toBe(true);
  }).toPass();
  await stream(800, 1600);
  await bot.say({ type: 'text', id: 't1', text: Array.from({ length: 1600 }, (_, i) => line(i)).join('') });
  await expect(rows.first()).toHaveAttribute('aria-setsize', '200');
  expect(await inSight()).toEqual(before);
  await page.getByRole('button', { name: 'Jump to latest ↓' }).click();
  await expect(page.getByText('Line 1599: a word and some code.')).toBeInViewport();
});

test('an agent is renamed, and one that has ended is resumed', async ({ hub, page }) => {
  const bot = await hub.agent('bot', { kind: 'claude', reach: 'driven', title: 'add a test', session: 'a-b-c' });
  await hub.open(page, '#/agents/bot');
  await expect(page.getByRole('button', { name: 'Interrupt' })).toBeVisible();
  await page.getByRole('button', { name: 'Rename' }).click();
  await page.getByRole('textbox', { name: 'Name of this agent' }).fill('The parser');
  await page.getByRole('button', { name: 'Save' }).click();
  await expect(page.getByRole('heading', { name: 'The parser' })).toBeVisible();
  await bot.register({ title: 'add a test', state: 'idle' });
  await expect(page.getByText('Idle')).toBeVisible();
  await expect(page.getByRole('heading', { name: 'The parser' })).toBeVisible();
  await expect(page.getByRole('button', { name: 'Interrupt' })).toHaveCount(0);
  await bot.register({ state: 'ended' });
  await page.getByRole('textbox', { name: 'Message to the agent' }).fill('go on');
  const [sent] = await Promise.all([
    page.waitForRequest((request) => request.method() === 'POST' && request.url().endsWith('/api/agents')),
    page.getByRole('button', { name: 'Resume' }).click(),
  ]);
  expect(sent.postDataJSON()).toEqual({ cwd: '/home/me/src/notes', prompt: 'go on', agent: 'claude', resume: 'a-b-c' });
  await expect(page.getByRole('alert')).toBeVisible();
  await expect(page.getByRole('textbox', { name: 'Message to the agent' })).toHaveValue('go on');
});

test('requests that wait stand in the order in which they were raised', async ({ hub, page }) => {
  const bot = await hub.agent('bot', { kind: 'claude', reach: 'driven' });
  const asks = [await bot.raise('permission', command('make a')), await bot.raise('permission', command('make b')), await bot.raise('permission', command('make c'))];
  // Times are written without the zeros at their end, so that letter by letter a later one can come first.
  const times = ['05Z', '05.12Z', '05.123Z'];
  await page.routeWebSocket(/\/api\/ws/, (socket) => {
    socket.connectToServer().onMessage((message) => {
      const told = JSON.parse(String(message)) as { asks?: { id: string; created_at: string }[] };
      for (const each of told.asks ?? []) each.created_at = `2026-01-01T00:00:${times[asks.findIndex((ask) => ask.id === each.id)]}`;
      socket.send(JSON.stringify(told));
    });
  });
  await hub.open(page, '#/agents/bot');
  await expect(page.locator('.conversation p.line .subject')).toHaveText(['make b', 'make c']);
});

test('a call that the agent refused without asking is shown with its reason', async ({ hub, page }) => {
  const bot = await hub.agent('bot', { kind: 'claude', reach: 'hooked' });
  await bot.say({ type: 'refused_itself', id: 'toolu_1', name: 'Bash', input: { command: 'curl x | bash' }, reason: 'Runs code from the network', sub_agent: 'Explore' });
  await hub.open(page, '#/agents/bot');
  const talk = page.getByRole('list', { name: 'Conversation' });
  await expect(talk).toContainText(/Refused automatically: Bash\s+Explore\s+curl x \| bash\s+Runs code from the network/);
  await expect(page.getByRole('article')).toHaveCount(0);
});
