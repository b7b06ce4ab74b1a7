/** A hub that cannot reach its database. */

import { database, expect, outcome, press, ready, test } from './support';

const AWAY = 'The hub cannot reach its database. Nothing that was recorded is lost, and it goes on by itself.';

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
