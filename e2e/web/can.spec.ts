/** Agents that take less than others: what they cannot take is not offered. */

import type { Page } from '@playwright/test';
import { command, database, expect, ready, test, type Ask, type Body, type Hub } from './support';

/** Opens the page on one request, with what its agent can take as the hub would tell it. */
async function open(hub: Hub, page: Page, ask: Ask, can: Body): Promise<void> {
  await page.routeWebSocket(/\/api\/ws/, (socket) => {
    socket.connectToServer().onMessage((message) => {
      const told = JSON.parse(String(message)) as { asks?: Body[]; ask?: Body };
      for (const each of [...(told.asks ?? []), ...(told.ask ? [told.ask] : [])]) if (each['id'] === ask.id) each['can'] = can;
      socket.send(JSON.stringify(told));
    });
  });
  await hub.open(page, `#/asks/${ask.id}`);
  await ready(page);
}

const two = { questions: [{ ...database.questions[0], free_text: false }, { question: 'And?', header: 'B', multi_select: true, free_text: true, options: [{ label: 'C' }] }] };

test('a request that must be answered elsewhere says where, and takes nothing here', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const asks = [await bot.raise('permission', command('ls')), await bot.raise('question', database), await bot.raise('plan', { plan: '# P' })];
  for (const ask of asks) {
    await open(hub, page, ask, { answer: false, why: 'Its session is not in tmux.' });
    await expect(page.getByText('This request cannot be answered here. Its session is not in tmux.')).toBeVisible();
    for (const button of await page.locator('article [data-decides]').all()) await expect(button).toBeDisabled();
  }
  await page.keyboard.press('Control+Enter');
  for (const ask of asks) expect((await hub.ask(ask.id)).state).toBe('open');
});

test('a question offers neither skipping, replies, own words nor notes to an agent that takes none', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const ask = await bot.raise('question', two);
  await open(hub, page, ask, {});
  const card = page.getByRole('article');
  await expect(card.getByRole('button', { name: /Skip all|Reply|Add a note/ })).toHaveCount(4);
  await expect(card.getByRole('textbox', { name: 'Your own answer' })).toHaveCount(1);
  await open(hub, page, ask, { skip: false, response: false, text: false, notes: false });
  await expect(card.getByRole('button')).toHaveText(['Submit']);
  await expect(card.getByRole('checkbox', { name: /Skip/ })).toHaveCount(0);
  await expect(card.getByRole('textbox')).toHaveCount(0);
  // The number after the last option would be one's own words.
  await card.getByRole('radio', { name: 'SQLite' }).check();
  await card.getByRole('checkbox', { name: 'C' }).focus();
  await page.keyboard.press('2');
  await expect(card.getByText('1 of 2 left')).toBeVisible();
  await page.keyboard.press('1');
  await expect(card.getByRole('button', { name: 'Submit' })).toBeEnabled();
});

test('a permission offers neither edits nor reasons to an agent that takes none, and says that a denial ends the turn', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const ask = await bot.raise('permission', command('ls', [{ scope: 'once' }, { scope: 'always', kept_by: 'hub' }]));
  await open(hub, page, ask, { edit: false, reason: false, deny_ends_turn: true });
  const card = page.getByRole('article');
  await expect(card.locator('button[data-decides]')).toHaveText([/^Allow once/, /^Deny/, /^Always allow/]);
  await expect(card.getByRole('button', { name: 'Edit first' })).toHaveCount(0);
  await expect(card.getByRole('textbox')).toHaveCount(0);
  await expect(card).toContainText('Denying also ends the agent’s turn.');
  await page.keyboard.press('3');
  await expect(card.getByRole('button', { name: 'Always allow' })).toBeFocused();
});

test('a plan offers neither edits nor an outline to an agent that takes none, and says what becomes of feedback', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const ask = await bot.raise('plan', { plan: '# P' });
  await open(hub, page, ask, { edit: false, outline: false });
  const card = page.getByRole('article');
  await expect(card.getByRole('button', { name: /^Edit|outline/ })).toHaveCount(0);
  await card.getByRole('textbox', { name: /Feedback/ }).fill('smaller');
  await expect(card.getByRole('button', { name: 'Approve without the feedback' })).toBeVisible();
  await expect(card).toContainText('This agent cannot take feedback with an approval');
});

test('what cannot be refused is not selected with the rest', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const fixed = await bot.raise('question', database);
  for (const target of ['a', 'b', 'c']) await bot.raise('permission', command(`make ${target}`));
  await open(hub, page, fixed, { skip: false });
  await page.getByRole('button', { name: 'Select', exact: true }).click();
  await page.getByRole('button', { name: 'Select all 3' }).click();
  await expect(page.getByRole('checkbox', { name: /^Select:/ })).toHaveCount(3);
  await expect(page.getByRole('button', { name: 'Deny 3', exact: true })).toBeVisible();
});
