/** Passkeys in a real browser: what takes one, and what it takes to add and remove them. */

import type { Page } from '@playwright/test';
import { execFileSync } from 'node:child_process';
import { violations } from './axe';
import { addFirst, device, passkey } from './passkey';
import { Hub, aye, command, expect, outcome, press, ready, test as base } from './support';

const test = base.extend<{ config: string; hub: Hub }>({
  config: ['[policy]\nproof = "passkey"\n', { option: true }],
  hub: async ({ config }, use) => {
    const hub = await Hub.start(config);
    await use(hub);
    await hub.end();
  },
});

const go = (page: Page, at: string): Promise<void> => page.evaluate((hash) => void (location.hash = hash), at);

test('the first passkey is added by the link, the second by the first, and each is removed by one', async ({ hub, page, browser }) => {
  await hub.open(page, '#/passkeys');
  await expect(page.getByText('aye passkey add', { exact: true })).toBeVisible();
  await expect(page.getByRole('button', { name: /^Add/ })).toHaveCount(0);
  await addFirst(hub, page);
  expect(passkey(hub, 'list')).toContain('laptop');

  // No link adds another by itself.
  expect(() => passkey(hub, 'add')).toThrow(/it has to sign for another one/);
  // Another device of the same person, signed in: it makes one, and adds nothing without the first.
  const other = await browser.newContext();
  const phone = await other.newPage();
  await device(phone);
  await hub.open(phone, '#/passkeys');
  await phone.getByRole('textbox', { name: 'Name of the new passkey' }).fill('phone');
  await phone.getByRole('button', { name: 'Add a passkey' }).click();
  await phone.getByRole('button', { name: 'Confirm with a passkey' }).click();
  await expect(phone.getByRole('alert')).toContainText('No passkey was used');
  expect(passkey(hub, 'list')).not.toContain('phone');
  await other.close();

  // A second one where the first is, on a key that is plugged in: one device makes only one passkey here.
  const ring = await device(page, 'usb');
  await page.getByRole('textbox', { name: 'Name of the new passkey' }).fill('key ring');
  await page.getByRole('button', { name: 'Add a passkey' }).click();
  await expect(page.getByRole('button', { name: 'Confirm with a passkey' })).toBeVisible();
  await ring.touch(false);
  await page.getByRole('button', { name: 'Confirm with a passkey' }).click();
  await expect(page.getByRole('status').filter({ hasText: 'Added: key ring.' })).toBeVisible();
  const registered = page.getByRole('list', { name: 'Registered passkeys' });
  await expect(registered.getByRole('listitem')).toHaveCount(2);

  for (const name of ['laptop', 'key ring']) {
    const row = registered.getByRole('listitem').filter({ hasText: name });
    await row.getByRole('button', { name: 'Remove…' }).click();
    await row.getByRole('button', { name: 'Remove with a passkey' }).click();
    await expect(page.getByRole('status').filter({ hasText: `Removed: ${name}.` })).toBeVisible();
    await ring.touch(true);
  }
  expect(passkey(hub, 'list')).toContain('There are none');
  execFileSync(aye, ['verify'], { env: hub.environment() });
});

test('allowing takes the passkey and a verified person, and refusing does not', async ({ hub, page }) => {
  const mine = await addFirst(hub, page);
  const bot = await hub.agent('bot');
  const [first, second] = [await bot.raise('permission', command('make')), await bot.raise('permission', command('make install'))];
  expect(first['proof']).toBe('passkey');
  expect(await hub.answer(first, { decision: 'allow', scope: 'once' })).toBe(403);
  await go(page, '#/');
  await expect(page.getByText('Denying takes no passkey')).toBeVisible();
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    expect(await violations(page)).toEqual([]);
  }
  await mine.verify(false);
  await press(page, 'Allow once with passkey');
  await expect(page.getByRole('alert')).toContainText('No passkey was used');
  expect((await hub.ask(first.id)).state).toBe('open');
  await mine.verify(true);
  await press(page, 'Allow once with passkey');
  await expect(outcome(page)).toContainText('Answered');
  expect((await hub.ask(first.id))['answer']).toEqual({ decision: 'allow', scope: 'once' });
  const signed = await mine.signs();

  await page.getByRole('link', { name: /^Next/ }).click();
  await press(page, 'Deny');
  await expect(outcome(page)).toContainText('Denied');
  expect((await hub.ask(second.id)).state).toBe('answered');
  expect(await mine.signs()).toBe(signed);
  execFileSync(aye, ['verify'], { env: hub.environment() });
});

test('a question takes it for an option that allows something, and for no other', async ({ hub, page }) => {
  const mine = await addFirst(hub, page);
  const bot = await hub.agent('bot');
  const body = { questions: [{ question: 'Leave plan mode?', header: '', multi_select: false, free_text: false, options: [{ label: 'Yes', allows: true }, { label: 'No' }] }] };
  const [first, second] = [await bot.raise('question', body), await bot.raise('question', body)];
  await go(page, `#/asks/${first.id}`);
  await page.getByRole('radio', { name: 'Yes' }).check();
  await press(page, 'Submit with passkey');
  await expect(outcome(page)).toContainText('Answered');
  expect((await hub.ask(first.id))['answer']).toEqual({ answers: [{ selected: ['Yes'] }] });
  const signed = await mine.signs();
  expect(signed).toBeGreaterThan(0);
  await go(page, `#/asks/${second.id}`);
  await expect(page.getByText('Refusing takes no passkey')).toBeVisible();
  await page.getByRole('radio', { name: 'No' }).check();
  await press(page, 'Submit');
  await expect(outcome(page)).toContainText('Answered');
  expect(await mine.signs()).toBe(signed);
  execFileSync(aye, ['verify'], { env: hub.environment() });
});

test('a plan takes it, and so does one that is approved in advance', async ({ hub, page }) => {
  const mine = await addFirst(hub, page);
  const bot = await hub.agent('bot');
  const plan = await bot.raise('plan', { plan: '1. everything' });
  await go(page, '#/');
  await press(page, 'Approve with passkey');
  await expect(outcome(page)).toContainText('Answered');
  expect((await hub.ask(plan.id))['answer']).toEqual({ decision: 'allow' });
  expect(await mine.signs()).toBeGreaterThan(0);
  const signed = await mine.signs();

  const next = await bot.raise('plan', { plan: '2. more' });
  await hub.answer(next, { decision: 'outline' });
  await go(page, `#/asks/${next.id}`);
  await press(page, 'Approve this plan after all with passkey');
  await expect(page.getByText('Approved. This plan goes through when the agent asks again.')).toBeVisible();
  expect(await mine.signs()).toBeGreaterThan(signed);
  expect((await bot.raise('plan', { plan: '2. more' }))['answer']).toEqual({ decision: 'allow' });
  execFileSync(aye, ['verify'], { env: hub.environment() });
});

test('without a passkey the page says what to do', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const ask = await bot.raise('permission', command('make'));
  await device(page);
  await hub.open(page);
  await press(page, 'Allow once with passkey');
  await expect(page.getByRole('alert')).toContainText('aye passkey add');
  expect((await hub.ask(ask.id)).state).toBe('open');
  await press(page, 'Deny');
  await expect(outcome(page)).toContainText('Denied');
});

test.describe('a rule that came later', () => {
  test.use({ config: '[[policy.rules]]\ncommand = "git push*"\naction = "ask"\nproof = "passkey"\n' });
  test('what is edited into a command that takes a passkey takes it', async ({ hub, page }) => {
    const mine = await addFirst(hub, page);
    const bot = await hub.agent('bot');
    const ask = await bot.raise('permission', command('git status'));
    expect(ask['proof']).toBeUndefined();
    await go(page, '#/');
    await page.getByRole('button', { name: 'Edit first' }).click();
    await page.getByRole('textbox', { name: /Your version of the command/ }).fill('git push');
    await (await ready(page)).getByRole('button', { name: 'Allow your version once' }).click();
    await expect(outcome(page)).toContainText('Answered');
    expect(await mine.signs()).toBeGreaterThan(0);
    expect((await hub.ask(ask.id)).state).toBe('answered');
  });
});

test.describe('a run that asks for less', () => {
  test.use({ config: '[policy]\nproof = "passkey"\n[agents.claude]\nallow_bypass = true\ncommand = "/no/such/agent"\n' });
  test('takes the passkey', async ({ hub, page }) => {
    const mine = await addFirst(hub, page);
    await go(page, '#/start');
    await page.getByRole('combobox', { name: 'Folder' }).fill(hub.home);
    await page.getByRole('textbox', { name: 'Prompt' }).fill('go');
    await page.getByRole('combobox', { name: 'Mode' }).selectOption('bypassPermissions');
    await mine.verify(false);
    await page.getByRole('button', { name: 'Start' }).click();
    await expect(page.getByRole('alert')).toContainText('No passkey was used');
    await mine.verify(true);
    await page.getByRole('button', { name: 'Start' }).click();
    // Once signed for, it is launched, which fails because the agent does not exist.
    await expect(page.getByRole('alert')).toContainText('/no/such/agent');
    expect(await mine.signs()).toBeGreaterThan(0);
  });
});

test.describe('a run outside of the projects', () => {
  test.use({ config: '[policy]\nproof = "passkey"\n[agents.claude]\ncommand = "/no/such/agent"\n[projects]\nroot = "/"\n' });
  test('takes the passkey, and one in a project does not', async ({ hub, page }) => {
    const mine = await addFirst(hub, page);
    await go(page, '#/start');
    await page.getByRole('textbox', { name: 'Prompt' }).fill('go');
    await page.getByRole('combobox', { name: 'Folder' }).fill('root');
    await page.getByRole('button', { name: 'Start' }).click();
    await expect(page.getByRole('alert')).toContainText('/no/such/agent');
    const signed = await mine.signs();
    await page.getByRole('combobox', { name: 'Folder' }).fill(hub.home);
    await mine.verify(false);
    await page.getByRole('button', { name: 'Start' }).click();
    await expect(page.getByRole('alert')).toContainText('No passkey was used');
    await mine.verify(true);
    await page.getByRole('button', { name: 'Start' }).click();
    // Once signed for, it is launched, which fails because the agent does not exist.
    await expect(page.getByRole('alert')).toContainText('/no/such/agent');
    expect(await mine.signs()).toBeGreaterThan(signed);
  });

  test('is resumed with the passkey', async ({ hub, page }) => {
    const mine = await addFirst(hub, page);
    const bot = await hub.agent('bot', { kind: 'claude', reach: 'driven', cwd: hub.home, session: 'a-b-c' });
    await bot.register({ state: 'ended' });
    await go(page, '#/agents/bot');
    await page.getByRole('textbox', { name: 'Message to the agent' }).fill('go on');
    await page.getByRole('button', { name: 'Resume' }).click();
    await expect(page.getByRole('alert')).toContainText('/no/such/agent');
    expect(await mine.signs()).toBeGreaterThan(0);
  });
});
