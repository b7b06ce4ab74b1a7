/** Questions that ask for a secret: it is typed unseen, goes to the agent, and stays nowhere. */

import type { Page } from '@playwright/test';
import { violations } from './axe';
import { database, expect, outcome, press, ready, test, type Ask, type Hub } from './support';

const SECRET = 'hunter2-correct-horse';
const form = { questions: [...database.questions, { question: 'The key for the server?', header: 'Key', free_text: true, secret: true }] };

async function open(hub: Hub, page: Page): Promise<Ask> {
  const ask = await (await hub.agent('bot')).raise('question', form);
  await hub.open(page);
  await ready(page);
  return ask;
}

/** All that this browser keeps, and all that it shows. */
const everything = (page: Page): Promise<string> =>
  page.evaluate(async () => {
    const kept: unknown[] = [{ ...localStorage }, { ...sessionStorage }];
    for (const { name } of await indexedDB.databases()) {
      const database = await new Promise<IDBDatabase>((resolve) => (indexedDB.open(name!).onsuccess = (event) => resolve((event.target as IDBOpenDBRequest).result)));
      for (const store of database.objectStoreNames) {
        kept.push(await new Promise((resolve) => (database.transaction(store).objectStore(store).getAll().onsuccess = (event) => resolve((event.target as IDBRequest).result))));
      }
      database.close();
    }
    return JSON.stringify(kept) + document.documentElement.outerHTML;
  });

test('a secret is typed unseen, goes to the agent, and is kept nowhere', async ({ hub, page }) => {
  const ask = await open(hub, page);
  const card = page.getByRole('article');
  const field = card.locator('input[type=password]');
  await expect(field).toHaveAccessibleDescription('Goes to the agent, and is deleted once it has arrived.');
  await card.getByRole('radio', { name: 'SQLite' }).check();
  await field.fill(SECRET);
  await expect(card.getByRole('button', { name: 'Submit' })).toBeEnabled();
  expect(await violations(page)).toEqual([]);
  // The draft of the other question is kept, this one is not.
  await expect.poll(() => page.evaluate(() => Object.keys(localStorage).filter((name) => name.startsWith('aye.draft')).length)).toBe(1);
  expect(await everything(page)).not.toContain(SECRET);
  await press(page, 'Submit');
  await expect(outcome(page)).toContainText('SQLite · (a secret, not kept)');
  expect(await everything(page)).not.toContain(SECRET);
  expect(JSON.stringify(await hub.ask(ask.id))).not.toContain(SECRET);
  const bot = await hub.call<{ token: string }>('POST', '/api/tokens', hub.operator(), { role: 'agent', agent: 'bot' });
  const told = await hub.call('GET', `/api/asks/${ask.id}/resolution`, bot.body.token);
  expect(JSON.stringify(told.body)).toContain(SECRET);
});

test('a draft comes back without its secret', async ({ hub, page }) => {
  await open(hub, page);
  await page.getByRole('radio', { name: 'SQLite' }).check();
  await page.locator('input[type=password]').fill(SECRET);
  await page.reload();
  await ready(page);
  await expect(page.getByRole('radio', { name: 'SQLite' })).toBeChecked();
  await expect(page.locator('input[type=password]')).toHaveValue('');
  await expect(page.getByRole('button', { name: 'Submit' })).toBeDisabled();
});

test('a secret takes neither notes, one reply to all, nor several lines, and is not shown where it came too late', async ({ hub, page }) => {
  const ask = await open(hub, page);
  const card = page.getByRole('article');
  await expect(card.getByRole('button', { name: 'Reply in your own words' })).toHaveCount(0);
  await expect(card.getByRole('button', { name: 'Add a note' })).toHaveCount(1);
  const field = card.locator('input[type=password]');
  const paste = (text: string): Promise<void> =>
    field.evaluate((element, pasted) => {
      const clipboardData = new DataTransfer();
      clipboardData.setData('text', pasted);
      element.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }));
    }, text);
  await paste('-----BEGIN KEY-----\nabc\n');
  await expect(card.getByRole('alert')).toHaveText('This field takes one line, and what you pasted has several.');
  await paste('one line\n');
  await expect(card.getByRole('alert')).toHaveCount(0);
  await field.fill(SECRET);
  await hub.answer(ask, { skip: true });
  await expect(outcome(page)).toContainText('Skipped');
  expect(await everything(page)).not.toContain(SECRET);
});
