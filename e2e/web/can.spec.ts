/** Agents that take less than others: what they cannot take is not offered. */

import type { Locator, Page } from '@playwright/test';
import { command, database, expect, test, type Ask, type Hub } from './support';

async function open(hub: Hub, page: Page, ask: Ask): Promise<Locator> {
  const at = `#/asks/${ask.id}`;
  if (page.url().startsWith(hub.address)) await page.evaluate((hash) => void (location.hash = hash), at);
  else await hub.open(page, at);
  const card = page.locator(`article[data-ask="${ask.id}"]`);
  await expect(card).toHaveAttribute('data-armed', '');
  return card;
}

const two = { questions: [{ ...database.questions[0], free_text: false }, { question: 'And?', header: 'B', multi_select: true, free_text: true, options: [{ label: 'C' }] }] };

/** The controls of a card that stand for one thing that an agent may not be able to take. */
const CONTROLS: [what: string, kind: 'question' | 'permission' | 'plan', control: (card: Locator) => Locator, before?: (card: Locator) => Promise<void>][] = [
  ['skip', 'question', (card) => card.getByRole('button', { name: 'Skip all…' })],
  ['skip', 'question', (card) => card.getByRole('checkbox', { name: 'Skip this question' }).first()],
  ['response', 'question', (card) => card.getByRole('button', { name: 'Reply in your own words' })],
  ['text', 'question', (card) => card.getByRole('textbox', { name: 'Your own answer' })],
  ['text', 'question', (card) => card.getByRole('checkbox', { name: 'Other' })],
  ['notes', 'question', (card) => card.getByRole('button', { name: 'Add a note' }).first()],
  ['reason', 'question', (card) => card.getByRole('textbox', { name: /^Reason/ }), (card) => card.getByRole('button', { name: 'Skip all…' }).click()],
  ['edit', 'permission', (card) => card.getByRole('button', { name: 'Edit first' })],
  ['stop', 'permission', (card) => card.getByRole('button', { name: 'Deny and stop' })],
  ['reason', 'permission', (card) => card.getByRole('textbox', { name: /^Reason/ })],
  ['edit', 'plan', (card) => card.getByRole('button', { name: 'Edit' })],
  ['outline', 'plan', (card) => card.getByRole('button', { name: /outline/ })],
];
const BODIES = { question: two, permission: command('ls', [{ scope: 'once' }]), plan: { plan: '# P' } };

test('each thing is offered to an agent that can take it, and to no other', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  for (const [what, kind, control, before] of CONTROLS) {
    for (const taken of [true, false]) {
      const card = await open(hub, page, await bot.raise(kind, BODIES[kind], { can: { [what]: taken } }));
      await before?.(card);
      await expect(control(card), `${what} of a ${kind}`).toHaveCount(taken ? 1 : 0);
    }
  }
});

test('each question offers what can be taken for it', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const body = { questions: [0, 1].map((i) => ({ ...database.questions[0], question: `Q${i}?`, free_text: true })) };
  const can = { text: false, notes: false, questions: [{ skip: false, text: false }, { notes: false }] };
  const card = await open(hub, page, await bot.raise('question', body, { can }));
  const [first, second] = [card.locator('fieldset').nth(0), card.locator('fieldset').nth(1)];
  for (const [section, offered] of [[first, [0, 1, 0]], [second, [1, 0, 1]]] as [Locator, number[]][]) {
    await expect(section.getByRole('textbox', { name: 'Your own answer' })).toHaveCount(offered[0]!);
    await expect(section.getByRole('button', { name: 'Add a note' })).toHaveCount(offered[1]!);
    await expect(section.getByRole('checkbox', { name: 'Skip this question' })).toHaveCount(offered[2]!);
  }
});

test('a request that must be answered elsewhere says where, and takes nothing here', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const can = { answer: false, why: 'Its session is not in tmux.' };
  const asks = [await bot.raise('permission', command('ls'), { can }), await bot.raise('question', database, { can }), await bot.raise('plan', { plan: '# P' }, { can })];
  for (const ask of asks) {
    await open(hub, page, ask);
    await expect(page.getByText('This request cannot be answered here. Its session is not in tmux.')).toBeVisible();
    for (const button of await page.locator('article [data-decides]').all()) await expect(button).toBeDisabled();
  }
  await page.keyboard.press('Control+Enter');
  for (const ask of asks) expect((await hub.ask(ask.id)).state).toBe('open');
});

test('a question without own words, notes and skipping is answered by its options alone', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const card = await open(hub, page, await bot.raise('question', two, { can: { skip: false, response: false, text: false, notes: false } }));
  await expect(card.getByRole('button')).toHaveText(['Submit']);
  // The number after the last option would be one's own words.
  await card.getByRole('radio', { name: 'SQLite' }).check();
  await card.getByRole('checkbox', { name: 'C' }).focus();
  await page.keyboard.press('2');
  await expect(card.getByText('1 of 2 left')).toBeVisible();
  await page.keyboard.press('1');
  await expect(card.getByRole('button', { name: 'Submit' })).toBeEnabled();
});

test('what an agent cannot take any more is not sent along from a draft', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const ask = await bot.raise('question', two);
  const card = await open(hub, page, ask);
  await card.getByRole('radio', { name: 'SQLite' }).check();
  await card.getByRole('button', { name: 'Add a note' }).first().click();
  await card.getByRole('textbox', { name: 'Note' }).fill('the small one');
  await card.getByRole('textbox', { name: 'Your own answer' }).fill('mine');
  await card.getByRole('checkbox', { name: 'C', exact: true }).check();
  await card.getByRole('button', { name: 'Skip all…' }).click();
  const less = await hub.call('PUT', `/api/asks/${ask.id}/can`, bot.token, { skip: false, text: false, notes: false });
  expect(less.status).toBe(200);
  await card.getByRole('button', { name: 'Submit' }).click();
  await expect.poll(async () => (await hub.ask(ask.id))['answer']).toEqual({ answers: [{ selected: ['SQLite'] }, { selected: ['C'] }] });
});

test('a refusal that ends the turn says so on its button, on every card', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const can = { edit: false, reason: false, outline: false, deny_ends_turn: true };
  const permission = await bot.raise('permission', command('ls', [{ scope: 'once' }, { scope: 'always', kept_by: 'hub' }]), { can });
  let card = await open(hub, page, permission);
  await expect(card.locator('button[data-decides]')).toHaveText([/^Allow once/, /^Deny \(ends the turn\)/, /^Always allow/]);
  await page.keyboard.press('3');
  await expect(card.getByRole('button', { name: 'Always allow' })).toBeFocused();
  card = await open(hub, page, await bot.raise('plan', { plan: '# P' }, { can }));
  await expect(card.locator('button[data-decides]')).toHaveText([/^Approve/, /^Send back \(ends the turn\)/]);
  const question = await bot.raise('question', database, { can });
  card = await open(hub, page, question);
  await card.getByRole('button', { name: 'Skip…' }).click();
  await card.getByRole('button', { name: 'Skip the question (ends the turn)' }).click();
  await expect.poll(async () => (await hub.ask(question.id))['answer']).toEqual({ skip: true });
  const other = await hub.agent('other');
  for (const target of ['a', 'b']) await other.raise('permission', command(`make ${target}`));
  await page.getByRole('button', { name: 'Select', exact: true }).click();
  await page.getByRole('textbox', { name: /^Reason/ }).fill('not now');
  await page.getByRole('button', { name: 'Select all 4' }).click();
  await expect(page.getByText('The reason is not sent for 2 of them')).toBeVisible();
  await expect(page.getByRole('region', { name: 'Selected requests' })).toHaveAttribute('data-armed', '');
  await page.getByRole('button', { name: 'Deny 4 (ends 1 turn)', exact: true }).click();
  await expect.poll(async () => (await hub.ask(permission.id))['answer']).toEqual({ decision: 'deny', interrupt: false });
});

test('feedback on a plan is offered where it can go, and is sent nowhere else', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  let card = await open(hub, page, await bot.raise('plan', { plan: '# P' }, { can: { edit: false, reason: false } }));
  await expect(card.getByRole('textbox')).toHaveCount(0);
  await card.getByRole('button', { name: 'Source' }).click();
  await expect(card.getByRole('button', { name: /Comment/ })).toHaveCount(0);
  const ask = await bot.raise('plan', { plan: '# Q' }, { can: { reason: false } });
  card = await open(hub, page, ask);
  await card.getByRole('textbox', { name: /Feedback/ }).fill('smaller');
  await expect(card).toContainText('This agent cannot take feedback with a refusal.');
  await expect(card.getByRole('button', { name: 'Approve with feedback' })).toBeVisible();
  await card.getByRole('button', { name: 'Send back without the feedback' }).click();
  await expect.poll(async () => (await hub.ask(ask.id))['answer']).toEqual({ decision: 'deny' });
});

test('a plan offers neither edits nor an outline to an agent that takes none, and says what becomes of feedback', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const card = await open(hub, page, await bot.raise('plan', { plan: '# P' }, { can: { edit: false, outline: false } }));
  await expect(card.getByRole('button', { name: /^Edit|outline/ })).toHaveCount(0);
  await card.getByRole('textbox', { name: /Feedback/ }).fill('smaller');
  await expect(card.getByRole('button', { name: 'Approve without the feedback' })).toBeVisible();
  await expect(card).toContainText('This agent cannot take feedback with an approval');
});

test('what cannot be refused is not selected with the rest', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const fixed = await bot.raise('question', database, { can: { skip: false } });
  for (const target of ['a', 'b', 'c']) await bot.raise('permission', command(`make ${target}`));
  await open(hub, page, fixed);
  await page.getByRole('button', { name: 'Select', exact: true }).click();
  await page.getByRole('button', { name: 'Select all 3' }).click();
  await expect(page.getByRole('checkbox', { name: /^Select:/ })).toHaveCount(3);
  await expect(page.getByRole('button', { name: 'Deny 3', exact: true })).toBeVisible();
});
