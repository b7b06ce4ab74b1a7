import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { Hub, command, database, expect, ready, test as base, watch, type Ask } from './support';

const test = base.extend<{ hub: Hub }>({
  hub: async ({}, use) => {
    const hub = await Hub.start(`
[policy]
auto_approve = ["Read"]
timeout = { question = "never", permission = "2h", plan = "never" }
[[policy.rules]]
name = "tests"
tool = "Bash"
command = "cargo test * [--all] [-- **]"
action = "allow"
[[policy.rules]]
tool = "WebFetch"
action = "deny"
message = "Not from here."
`);
    await use(hub);
    await hub.end();
  },
});

async function past(hub: Hub): Promise<Ask[]> {
  const bot = await hub.agent('bot', { title: 'notes' });
  const asks = [
    await bot.raise('question', database),
    await bot.raise('permission', command('cargo test --all')),
    await bot.raise('permission', { tool: 'WebFetch', input: { url: 'http://a.example' } }),
    await bot.raise('permission', command('git push')),
    await bot.raise('plan', { plan: '# Größer werden' }),
  ];
  await hub.answer(asks[0]!, { answers: [{ selected: ['SQLite'], notes: '=1+1 "quoted"' }] });
  await hub.answer(asks[3]!, { decision: 'deny', message: 'not today' });
  await bot.withdraw(asks[4]!, 'cancelled');
  return asks;
}

test('everything decided is found, with who, where and which rule', async ({ hub, page }) => {
  await past(hub);
  await hub.open(page, '#/history');
  const rows = page.locator('main li');
  await expect(rows).toHaveCount(5);
  await expect(rows.filter({ hasText: 'cargo test --all' })).toContainText('rule 1 (tests)');
  await expect(rows.filter({ hasText: 'Which database' })).toContainText(/on the API/);
  await page.getByRole('combobox', { name: 'Decided by' }).selectOption('rules');
  await expect(rows).toHaveCount(2);
  await page.getByRole('combobox', { name: 'Decided by' }).selectOption('people');
  await expect(rows).toHaveCount(2);
  await page.getByRole('combobox', { name: 'Kind' }).selectOption('permission');
  await expect(rows).toHaveCount(1);
  await expect(rows).toContainText('not today');
  await page.getByRole('combobox', { name: 'Kind' }).selectOption('');
  await page.getByRole('combobox', { name: 'Decided by' }).selectOption('');
  await page.getByRole('combobox', { name: 'Outcome' }).selectOption('withdrawn');
  await expect(rows).toHaveCount(1);
  await page.getByRole('combobox', { name: 'Outcome' }).selectOption('ended');
  for (const [words, found] of [['Größer', 1], ['1+1 "quoted"', 1], ['GIT PUSH', 1], ['100%', 0], ['_', 0], ['notes', 5], ['nowhere', 0]] as const) {
    await page.getByRole('searchbox').fill(words);
    await expect(rows, words).toHaveCount(found);
  }
  await page.getByRole('searchbox').fill('git push');
  await rows.first().getByRole('button').click();
  await expect(page.getByRole('article')).toContainText('Denied: not today');
  await page.reload();
  await expect(rows).toHaveCount(1);
});

test('long histories come page by page', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  for (let i = 0; i < 60; i += 1) await bot.raise('permission', command(`cargo test number-${i}-`));
  await hub.open(page, '#/history');
  const rows = page.locator('main li');
  await expect(rows).toHaveCount(50);
  await expect(rows.first()).toContainText('number-59-');
  await page.getByRole('button', { name: 'Load older requests' }).click();
  await expect(rows).toHaveCount(60);
  await expect(page.getByRole('button', { name: 'Load older requests' })).toHaveCount(0);
});

for (const [size, viewport] of Object.entries({ wide: { width: 1280, height: 860 }, phone: { width: 390, height: 700 } })) {
  test(`the history scrolls to its oldest entry, by wheel and by keyboard, ${size}`, async ({ hub, page }) => {
    await page.setViewportSize(viewport);
    const bot = await hub.agent('bot');
    for (let i = 0; i < 40; i += 1) await bot.raise('permission', command(`cargo test number-${i}-`));
    await hub.open(page, '#/history');
    const oldest = page.getByText('number-0-');
    await expect(oldest).not.toBeInViewport();
    await page.locator('main li').first().hover();
    await expect(async () => {
      await page.mouse.wheel(0, 500);
      await expect(oldest).toBeInViewport({ timeout: 100 });
    }).toPass();
    await page.evaluate(() => void (location.hash = '#/policy'));
    await expect(page.getByRole('heading', { name: 'Policy' })).toBeVisible();
    await page.evaluate(() => void (location.hash = '#/history'));
    await expect(page.getByText('number-39-')).toBeInViewport();
    await page.keyboard.press('End');
    await expect(oldest).toBeInViewport();
  });
}

test('the history is exported as JSON and as CSV, filtered as it is shown', async ({ hub, page }) => {
  const asks = await past(hub);
  await hub.open(page, '#/history?kind=question');
  const saved = async (name: string): Promise<string> => {
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name }).click()]);
    return readFileSync(await download.path(), 'utf8');
  };
  const json = JSON.parse(await saved('Export JSON')) as Ask[];
  expect(json.map((ask) => ask.id)).toEqual([asks[0]!.id]);
  await page.evaluate(() => void (location.hash = '#/history'));
  await expect(page.locator('main li')).toHaveCount(5);
  expect((JSON.parse(await saved('Export JSON')) as Ask[]).length).toBe(5);
  const csv = await saved('Export CSV');
  const lines = csv.trim().split('\r\n');
  expect(lines).toHaveLength(6);
  expect(lines[0]).toContain('id,raised,ended,kind');
  expect(csv).toContain('rule 1 (tests)');
  expect(csv).toContain('not today');
});

test('the policy shows its rules and grants, what each decided, and lets grants be revoked', async ({ hub, page }) => {
  await past(hub);
  const bot = await hub.agent('other');
  const ask = await bot.raise('permission', command('make docs', [{ scope: 'once' }, { scope: 'always', kept_by: 'hub' }]));
  await hub.answer(ask, { decision: 'allow', scope: 'always' });
  const again = await bot.raise('permission', command('make docs'));
  expect((await hub.ask(again.id)).state).toBe('answered');
  await hub.open(page, '#/policy');
  const rules = page.getByRole('region', { name: /^Rules/ }).getByRole('listitem');
  await expect(rules).toHaveCount(2);
  await expect(rules.first()).toContainText(/Allow.*tests.*1 request.*cargo test \*/s);
  await expect(rules.first()).toContainText('** is dangerous');
  await expect(rules.nth(1)).toContainText('Not from here.');
  await expect(page.getByRole('main')).toContainText('expire after 2h');
  const grants = page.getByRole('region', { name: /^Standing/ }).getByRole('listitem');
  await expect(grants).toContainText(/make docs.*1 request/s);
  await rules.first().getByRole('link', { name: '1 request' }).click();
  await expect(page.locator('main li')).toHaveCount(1);
  await expect(page.locator('main li')).toContainText('cargo test --all');
  await page.goBack();
  await grants.getByRole('button', { name: 'Revoke…' }).click();
  await grants.getByRole('button', { name: 'Revoke' }).click();
  await expect(page.getByText('No standing approvals')).toBeVisible();
  const third = await bot.raise('permission', command('make docs'));
  expect((await hub.ask(third.id)).state).toBe('open');
});

test('a grant made on a card is in force and listed at once', async ({ hub, page, browser, strays }) => {
  const bot = await hub.agent('bot');
  await bot.raise('permission', command('make docs', [{ scope: 'once' }, { scope: 'always', kept_by: 'hub' }]));
  const other = await browser.newContext();
  watch(other, hub, strays);
  const second = await other.newPage();
  await hub.open(second, '#/policy');
  await expect(second.getByText('No standing approvals')).toBeVisible();
  await hub.open(page);
  await (await ready(page)).getByRole('button', { name: /^Always allow/ }).click();
  await expect(second.getByRole('region', { name: /^Standing/ }).getByRole('listitem')).toContainText('make docs');
  await other.close();
});

test('what an agent keeps itself is listed with where it is and how to take it back', async ({ hub, page }) => {
  const folder = mkdtempSync(join(tmpdir(), 'aye-kept-'));
  const file = join(folder, '.claude/settings.local.json');
  mkdirSync(join(folder, '.claude'));
  writeFileSync(file, JSON.stringify({ permissions: { allow: ['Bash(touch two *)'] } }));
  const bot = await hub.agent('bot', { kind: 'claude', cwd: folder, host: hostname(), title: 'notes' });
  const scopes = (rule: string): { scope: string; rule?: string }[] => [
    { scope: 'once' },
    { scope: 'session', rule: `allow ${rule} for this session` },
    { scope: 'always', rule: `allow ${rule} in this project's local settings` },
  ];
  const allow = async (rule: string, scope: string, receipt: string): Promise<void> => {
    const ask = await bot.raise('permission', command('touch two x', scopes(rule)));
    await hub.answer(ask, { decision: 'allow', scope });
    await bot.receipt(ask, receipt);
  };
  await allow('Bash(never told)', 'always', 'undelivered');
  await allow('Bash(only now)', 'session', 'confirmed');
  await allow('Bash(touch two *)', 'always', 'confirmed');
  await hub.open(page, '#/policy');
  const kept = page.getByRole('list', { name: 'Kept by the agents themselves' }).getByRole('listitem');
  await expect(kept).toHaveCount(2);
  await expect(kept.first()).toContainText(`Bash(touch two *) In ${file}; remove it there to take it back`);
  await expect(kept.nth(1)).toContainText('Bash(only now) Ends with the session of bot');
  await expect(kept.first().getByRole('link', { name: 'notes' })).toHaveAttribute('href', '#/agents/bot');
  writeFileSync(file, '{}');
  await page.reload();
  await expect(kept.first()).toContainText(`No longer in ${file}`);
  rmSync(folder, { recursive: true });
});
