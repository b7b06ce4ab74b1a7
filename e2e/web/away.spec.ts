/** A hub that cannot reach its database. */

import { Postgres } from './postgres';
import { Hub, database, expect, outcome, press, ready, test } from './support';

const served = test.extend<{ server: Postgres }>({
  server: async ({}, use) => {
    const server = await Postgres.start();
    await use(server);
    await server.end();
  },
  hub: async ({ server }, use) => {
    const hub = await Hub.start(`[store]\nurl = "${server.url}"\n`);
    await use(hub);
    await hub.end();
  },
});

const AWAY = 'The hub cannot reach its database. Nothing that was recorded is lost, and it goes on by itself.';

served('a page whose database is stopped says so, also after a reload, and goes on with its draft', async ({ hub, server, page }) => {
  const ask = await (await hub.agent('bot')).raise('question', database);
  await hub.open(page);
  const card = await ready(page);
  await card.getByRole('textbox', { name: 'Your own answer' }).fill('A file per note');
  await server.turn('stop');
  const notice = page.getByRole('alert').filter({ hasText: 'The hub cannot reach its database.' });
  await expect(notice).toBeVisible({ timeout: 15_000 });
  await expect(page.getByRole('button', { name: 'Submit' })).toBeDisabled();
  await page.reload();
  await expect(notice).toBeVisible({ timeout: 15_000 });
  await server.turn('start');
  await expect(notice).toHaveCount(0, { timeout: 30_000 });
  await ready(page);
  await press(page, 'Submit');
  await expect(outcome(page)).toContainText('A file per note');
  expect((await hub.ask(ask.id))['answer']).toEqual({ answers: [{ text: 'A file per note' }] });
});

test('while the hub cannot reach its database the page says so, keeps what was typed, and goes on by itself', async ({ hub, page }) => {
  const ask = await (await hub.agent('bot')).raise('question', database);
  await hub.open(page);
  const card = await ready(page);
  await card.getByRole('textbox', { name: 'Your own answer' }).fill('A file per note');
  const body = JSON.stringify({ error: AWAY, reason: 'database_away' });
  await page.route('**/api/health', (route) => route.fulfill({ status: 503, contentType: 'application/json', body }));
  const notice = page.getByRole('alert').filter({ hasText: 'The hub cannot reach its database.' });
  await expect(notice).toBeVisible({ timeout: 10_000 });
  await expect(page.getByText('Offline, reconnecting…')).toHaveCount(0);
  await expect(page.getByRole('button', { name: 'Submit' })).toBeDisabled();
  await page.unroute('**/api/health');
  await expect(notice).toHaveCount(0, { timeout: 10_000 });
  await press(page, 'Submit');
  await expect(outcome(page)).toContainText('A file per note');
  expect((await hub.ask(ask.id))['answer']).toEqual({ answers: [{ text: 'A file per note' }] });
});

test('an answer that meets a database that is away is not lost, and sent again when it is back', async ({ hub, page }) => {
  const ask = await (await hub.agent('bot')).raise('question', database);
  await hub.open(page);
  await ready(page);
  await page.getByText('SQLite', { exact: true }).click();
  const body = JSON.stringify({ error: AWAY, reason: 'database_away' });
  const away = async (url: string): Promise<void> => {
    await page.route(url, (route) => route.fulfill({ status: 503, contentType: 'application/json', body }));
  };
  await away('**/answer');
  await away('**/api/health');
  await press(page, 'Submit');
  const notice = page.getByRole('alert').filter({ hasText: 'Meanwhile nothing can be sent.' });
  await expect(notice).toBeVisible({ timeout: 10_000 });
  await page.unrouteAll();
  await expect(notice).toHaveCount(0, { timeout: 10_000 });
  await press(page, 'Submit');
  await expect(outcome(page)).toContainText('SQLite');
  expect((await hub.ask(ask.id))['answer']).toEqual({ answers: [{ selected: ['SQLite'] }] });
});
