import { command, database, expect, outcome, press, ready, test } from './support';

const scopes = [{ scope: 'once' }, { scope: 'session', rule: 'Run cargo test until this session ends' }, { scope: 'always', kept_by: 'hub' }];

test('a command is allowed once, for the session or always, and says what that means first', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const asks = [];
  for (let i = 0; i < 3; i += 1) asks.push(await bot.raise('permission', command(`cargo test --package p${i}`, scopes)));
  await hub.open(page);
  await expect(page.getByText('Run cargo test until this session ends')).toBeVisible();
  await expect(page.getByText(/Run exactly this command in .*, by every agent, for 90 days/)).toBeVisible();
  for (const [i, name] of ['Allow once', 'Allow for this session', 'Always allow'].entries()) {
    await expect(page.getByRole('group', { name: 'What you would allow', exact: true })).toContainText(`cargo test --package p${i}`);
    await (await ready(page)).getByRole('button', { name }).click();
    await expect(outcome(page)).toContainText('Answered');
    if (i < 2) await page.getByRole('link', { name: 'Next request →' }).click();
  }
  const answers = await Promise.all(asks.map(async (ask) => (await hub.ask(ask.id))['answer']));
  expect(answers).toEqual(['once', 'session', 'always'].map((scope) => ({ decision: 'allow', scope })));
});

test('it is denied with a message, or denied and stopped', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const first = await bot.raise('permission', command('git push'));
  const second = await bot.raise('permission', command('git push --force'));
  await hub.open(page);
  await page.getByRole('textbox', { name: 'Reason (optional, sent to the agent)' }).fill('not on a friday');
  await press(page, 'Deny');
  await expect(page.getByText('Denied: not on a friday')).toBeVisible();
  await page.getByRole('link', { name: 'Next request →' }).click();
  await press(page, 'Deny and stop');
  await expect(page.getByText('You’re all caught up.')).toBeVisible();
  expect((await hub.ask(first.id))['answer']).toEqual({ decision: 'deny', message: 'not on a friday', interrupt: false });
  expect((await hub.ask(second.id))['answer']).toEqual({ decision: 'deny', interrupt: true });
});

test('a command can be edited before it is allowed, and other input as JSON', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const first = await bot.raise('permission', command('rm -r build', scopes));
  const second = await bot.raise('permission', { tool: 'Fetch', input: { url: 'http://a.example', depth: 2 } });
  await hub.open(page);
  await page.getByRole('button', { name: 'Edit first' }).click();
  await page.getByRole('textbox', { name: /Your version of the command/ }).fill('rm -r build/cache');
  await expect(page.getByRole('button', { name: 'Allow for this session' })).toHaveCount(0);
  await press(page, 'Allow your version once');
  await expect(page.getByText('Allowed once, edited')).toBeVisible();
  expect((await hub.ask(first.id))['answer']).toEqual({
    decision: 'allow',
    scope: 'once',
    input: { command: 'rm -r build/cache', description: 'runs it' },
  });

  await page.getByRole('link', { name: 'Next request →' }).click();
  await page.getByRole('button', { name: 'Edit first' }).click();
  const json = page.getByRole('textbox', { name: /Your version of the input/ });
  await json.fill('{"url": ');
  await expect(page.getByText(/This is not JSON/)).toBeVisible();
  await expect(page.getByRole('button', { name: 'Allow your version once' })).toBeDisabled();
  await json.fill('{"url": "http://b.example", "depth": 1}');
  await press(page, 'Allow your version once');
  await expect(page.getByText('Allowed once, edited')).toBeVisible();
  expect((await hub.ask(second.id))['answer']).toMatchObject({ input: { url: 'http://b.example', depth: 1 } });
});

test('no button is the default, Enter decides nothing, and digits only move to a button', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const ask = await bot.raise('permission', command('make deploy', scopes));
  await hub.open(page);
  await ready(page);
  await expect(page.getByRole('button', { name: 'Allow once' })).toBeEnabled();
  expect(await page.evaluate(() => document.activeElement?.closest('[data-decides]'))).toBeNull();
  await page.keyboard.press('Enter');
  await page.keyboard.press('Control+Enter');
  await page.keyboard.press('1');
  await expect(page.getByRole('button', { name: 'Allow once' })).toBeFocused();
  await page.keyboard.press('Enter');
  // Deny has the same number on every card.
  await page.keyboard.press('2');
  await expect(page.getByRole('button', { name: 'Deny', exact: true })).toBeFocused();
  await page.keyboard.press('Enter');
  expect((await hub.ask(ask.id)).state).toBe('open');
  await page.keyboard.press('Space');
  await expect(outcome(page)).toContainText('Answered');
  expect((await hub.ask(ask.id))['answer']).toEqual({ decision: 'deny', interrupt: false });
});

test('a diff stands side by side where there is room, and below each other where there is not', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  await bot.raise('permission', {
    tool: 'Edit',
    input: { file_path: 'src/limits.rs', old_string: 'const MOST: usize = 10;', new_string: 'const MOST: usize = 100;' },
    before: { places: [{ old_start: 2, new_start: 2, above: ['// How many.'] }] },
    scopes: [{ scope: 'once' }],
  });
  await page.setViewportSize({ width: 1500, height: 900 });
  await hub.open(page);
  const diff = page.getByRole('group', { name: 'Changes', exact: true });
  await expect(diff.locator('tr')).toHaveCount(2);
  await expect(diff.locator('tr').nth(1)).toContainText(/10;.*100;/);
  await page.setViewportSize({ width: 1000, height: 900 });
  await expect(diff.locator('tr')).toHaveCount(3);
});

test('a number that a browser cannot hold is not approved here', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const raw = `{"key":"big","agent":"bot","kind":"permission","body":{"tool":"Bash","input":{"command":"pay","account":9007199254740993}}}`;
  const raised = await fetch(`${hub.address}/api/asks`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${bot.token}`, 'Content-Type': 'application/json' },
    body: raw,
  });
  expect(raised.status).toBe(201);
  await hub.open(page);
  await expect(page.getByText(/cannot show exactly/)).toBeVisible();
  await expect(page.getByRole('button', { name: 'Allow once' })).toBeDisabled();
  await expect(page.getByRole('button', { name: 'Edit first' })).toHaveCount(0);
});

test('a double click answers one ask, never the next', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const first = await bot.raise('permission', command('true', scopes));
  const second = await bot.raise('permission', command('rm -rf /', scopes));
  await page.clock.install();
  await hub.open(page);
  await expect(page.locator(`[data-ask="${first.id}"]`)).toHaveAttribute('data-armed', '');
  const spot = (await page.getByRole('button', { name: 'Allow once' }).boundingBox())!;
  const [x, y] = [spot.x + spot.width / 2, spot.y + spot.height / 2];
  // However long the presses take, they are in quick succession for the page.
  await page.clock.pauseAt(Date.now() + 60_000);
  await page.mouse.dblclick(x, y);
  await page.mouse.dblclick(x, y);
  await page.clock.resume();
  await expect(outcome(page)).toContainText('Answered');
  expect((await hub.ask(first.id))['state']).toBe('answered');
  expect((await hub.ask(second.id))['state']).toBe('open');
});

test('a card that comes under the pointer takes no press that was meant for another', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  await bot.raise('permission', command('true', scopes));
  const second = await bot.raise('permission', command('rm -rf /', scopes));
  const answers: string[] = [];
  page.on('request', (request) => void (request.url().endsWith('/answer') && answers.push(request.url())));
  await page.clock.install();
  await hub.open(page);
  const allow = page.getByRole('button', { name: 'Allow once' });
  await expect(allow).toBeEnabled();
  const spot = (await allow.boundingBox())!;
  await page.mouse.move(spot.x + 30, spot.y + 10);
  // The card changes between the press and the release, and again right before a press, however long they take.
  await page.clock.pauseAt(Date.now() + 60_000);
  await page.mouse.down();
  await page.evaluate((id) => void (location.hash = `#/asks/${id}`), second.id);
  await expect(page.getByRole('group', { name: 'What you would allow', exact: true })).toContainText('rm -rf /');
  await page.mouse.up();
  await page.mouse.down();
  await page.mouse.up();
  await page.clock.resume();
  await expect(page.locator(`[data-ask="${second.id}"]`)).toHaveAttribute('data-armed', '');
  expect(answers).toEqual([]);
  expect((await hub.ask(second.id)).state).toBe('open');
  // Now that it has been on show, the same press counts.
  await page.mouse.down();
  await page.mouse.up();
  await expect(outcome(page)).toContainText('Answered');
  expect(answers).toHaveLength(1);
});

test('several requests are denied or skipped together', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const asks = [await bot.raise('permission', command('make a')), await bot.raise('question', database), await bot.raise('plan', { plan: '# P' }), await bot.raise('permission', command('make b'))];
  await hub.open(page);
  await page.getByRole('button', { name: 'Select', exact: true }).click();
  const boxes = page.getByRole('checkbox', { name: /^Select:/ });
  for (const i of [0, 1, 2]) await boxes.nth(i).check();
  const bar = page.getByRole('region', { name: 'Selected requests' });
  await expect(bar.getByRole('button', { name: /Allow|Approve/ })).toHaveCount(0);
  await expect(bar).toHaveAttribute('data-armed', '');
  // What a filter hides is not refused with the rest.
  await page.getByRole('searchbox', { name: 'Search requests' }).fill('make');
  await expect(bar.getByRole('button', { name: 'Deny 1', exact: true })).toBeVisible();
  await page.getByRole('searchbox', { name: 'Search requests' }).fill('');
  await bar.getByRole('textbox').fill('not today');
  await bar.getByRole('button', { name: 'Deny or skip 3' }).click();
  await expect(page.getByRole('region', { name: 'Selected requests' })).toHaveCount(0);
  expect(await page.evaluate(() => document.activeElement?.id)).toBe('main');
  const answers = await Promise.all(asks.map(async (ask) => (await hub.ask(ask.id))['answer']));
  expect(answers).toEqual([{ decision: 'deny', message: 'not today', interrupt: false }, { skip: true, message: 'not today' }, { decision: 'deny', message: 'not today' }, null]);
});

test('a card says what would be done, with which tool, and whose word the folder is', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const edits = [{ old_string: 'a', new_string: 'b' }, { old_string: 'c', new_string: 'd' }];
  const asked: [string, Record<string, unknown>, string][] = [
    ['Run a command', command('ls'), 'Bash'],
    ['Edit a file', { tool: 'Edit', input: { file_path: 'a.rs', ...edits[0] } }, 'Edit'],
    ['Make 2 edits in a file', { tool: 'MultiEdit', input: { file_path: 'a.rs', edits } }, 'MultiEdit'],
    ['Write a file', { tool: 'Write', input: { file_path: 'a.rs', content: 'x' } }, 'Write'],
    ['Use WebFetch', { tool: 'WebFetch', input: { url: 'http://a.example' } }, 'WebFetch'],
    ['Use create_issue from github', { tool: 'mcp__github__create_issue', input: { title: 'slow' } }, 'mcp__github__create_issue'],
    ['Use mcp__a__b__c\\u{202e}', { tool: 'mcp__a__b__c\u202e', input: {} }, 'mcp__a__b__c\\u{202e}'],
  ];
  await hub.open(page);
  for (const [words, body, tool] of asked) {
    const ask = await bot.raise('permission', { ...body, scopes: [{ scope: 'once' }] });
    await page.evaluate((id) => void (location.hash = `#/asks/${id}`), ask.id);
    await expect(page.locator(`[data-ask="${ask.id}"]`).getByRole('heading', { level: 2 })).toHaveText(`${words} ${tool}`);
    await expect(page.getByRole('link', { name: new RegExp(words.split('\\')[0]!) }).first()).toBeVisible();
  }
  await expect(page.getByText('/home/me/src/notes (as the agent says)')).toBeVisible();
});

test('the values of any other tool stand as they are, line by line, and not as JSON', async ({ hub, page, context }) => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: hub.address });
  const bot = await hub.agent('bot');
  await bot.raise('permission', { tool: 'mcp__mail__send', input: { to: ['a@example.org'], body: 'Dear all,\n\nit is "done".' }, scopes: [{ scope: 'once' }] });
  await hub.open(page);
  const shown = page.getByRole('group', { name: 'What you would allow', exact: true });
  await expect(shown.locator('dt')).toHaveText(['to', 'body']);
  await expect(shown.locator('dd').first()).toHaveText('["a@example.org"]');
  expect(await shown.locator('dd').nth(1).innerText()).toBe('Dear all,\n\nit is "done".');
  await shown.getByRole('button', { name: 'Copy as JSON' }).click();
  expect(JSON.parse(await page.evaluate(() => navigator.clipboard.readText()))).toEqual({ to: ['a@example.org'], body: 'Dear all,\n\nit is "done".' });
});
