import { command, database, expect, outcome, press, ready, test, watch } from './support';

test('two browsers: the first answer wins, and the other sees who and what at once', async ({ hub, page, browser, strays }) => {
  const bot = await hub.agent('bot');
  const ask = await bot.raise('question', database);
  const other = await browser.newContext();
  watch(other, hub, strays);
  const second = await other.newPage();
  await hub.open(page);
  await hub.open(second);
  await second.getByText('PostgreSQL', { exact: true }).click();
  await page.getByText('SQLite', { exact: true }).click();
  await press(page, 'Submit');
  await expect(outcome(page)).toContainText('SQLite');
  await expect(outcome(second)).toContainText(/SQLite.*Answered.*on the web page/s);
  await expect(second.getByRole('button', { name: 'Submit' })).toHaveCount(0);
  expect((await hub.ask(ask.id))['answer']).toEqual({ answers: [{ selected: ['SQLite'] }] });
  await other.close();
});

test('who comes second by a hair is told who was first, and the first answer stays', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const ask = await bot.raise('question', database);
  await hub.open(page);
  await page.getByText('PostgreSQL', { exact: true }).click();
  await ready(page);
  // Answered elsewhere while our own answer is on its way.
  await page.route('**/answer', async (route) => {
    await hub.answer(ask, { answers: [{ selected: ['SQLite'] }] });
    await route.continue();
  });
  await press(page, 'Submit');
  await expect(outcome(page)).toContainText(/SQLite.*on the API/s);
  const unused = page.getByRole('alert', { name: 'Your answer' });
  await expect(unused).toContainText(/Your answer was not used: .* on the API was first/);
  await expect(unused).toContainText('PostgreSQL');
  expect((await hub.ask(ask.id))['answer']).toEqual({ answers: [{ selected: ['SQLite'] }] });
});

test('what was typed when somebody else was first stays to be copied, until it is discarded', async ({ hub, page, context }) => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: hub.address });
  const bot = await hub.agent('bot');
  const asks = [await bot.raise('permission', command('make')), await bot.raise('plan', { plan: '# P' }), await bot.raise('question', database)];
  const fill = ['Reason (optional, sent to the agent)', 'Feedback (optional, sent to the agent)', 'Your own answer'];
  const answers = [{ decision: 'deny', interrupt: false }, { decision: 'deny' }, { skip: true }];
  await hub.open(page);
  for (const [i, ask] of asks.entries()) {
    await page.evaluate((id) => void (location.hash = `#/asks/${id}`), ask.id);
    await ready(page);
    await page.getByRole('textbox', { name: fill[i]! }).click();
    await page.getByRole('textbox', { name: fill[i]! }).fill(`my words ${i}`);
    await hub.answer(ask, answers[i]!);
    const unsent = page.getByRole('status', { name: 'Your answer' });
    await expect(unsent).toContainText(/Your draft was not sent: .* was first/);
    await expect(unsent).toContainText(`my words ${i}`);
    await page.reload();
    await expect(unsent).toContainText(`my words ${i}`);
    await unsent.getByRole('button', { name: 'Copy' }).click();
    expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(`my words ${i}`);
    await unsent.getByRole('button', { name: 'Discard' }).click();
    await expect(unsent).toHaveCount(0);
    await page.reload();
    await expect(outcome(page)).toBeVisible();
    await expect(unsent).toHaveCount(0);
  }
});

test('being offline is said within five seconds, though no socket says so', async ({ hub, page, context }) => {
  await hub.open(page);
  await expect(page.getByText('Connect your first agent')).toBeVisible();
  await context.setOffline(true);
  await expect(page.getByText('Offline, reconnecting…')).toBeVisible({ timeout: 5_000 });
  await context.setOffline(false);
  await expect(page.getByText('Offline, reconnecting…')).toHaveCount(0, { timeout: 20_000 });
});

test('a browser that notifies only through a service worker raises no error', async ({ hub, page }) => {
  await page.addInitScript(() => {
    class Refusing {
      static permission = 'granted';
      constructor() {
        throw new TypeError('Illegal constructor. Use ServiceWorkerRegistration.showNotification() instead.');
      }
    }
    Object.assign(globalThis, { Notification: Refusing });
    Object.defineProperty(document, 'hidden', { get: () => true });
  });
  const bot = await hub.agent('bot');
  await hub.open(page);
  await bot.raise('question', database);
  await bot.raise('permission', command('make'));
  await expect(page).toHaveTitle('(2) aye');
});

test('a disputed answer is an alarm wherever one looks, until somebody marks it as seen', async ({ hub, page }) => {
  const bot = await hub.agent('bot', { title: 'Notes' });
  const ask = await bot.raise('question', database);
  await hub.answer(ask, { answers: [{ selected: ['SQLite'] }] });
  await hub.open(page);
  await expect(page).toHaveTitle('aye');
  await bot.receipt(ask, 'disputed');
  await expect(page).toHaveTitle('⚠ aye');
  const alarm = page.getByRole('alert').filter({ hasText: 'An answer was not followed' });
  for (const view of ['#/', '#/agents', '#/agents/bot', '#/history', '#/policy']) {
    await page.evaluate((hash) => void (location.hash = hash), view);
    await expect(alarm).toContainText(/Notes.*Which database/);
  }
  await page.evaluate(() => void (location.hash = '#/agents'));
  await expect(page.getByRole('link', { name: /Notes/ })).toContainText('Disputed answer');
  await page.evaluate(() => void (location.hash = '#/history'));
  await expect(page.locator('main li')).toContainText('Disputed');
  await page.reload();
  await expect(page).toHaveTitle('⚠ aye');
  await alarm.getByRole('link', { name: 'Review' }).click();
  await page.getByRole('button', { name: 'Mark as seen' }).click();
  await expect(page).toHaveTitle('aye');
  await expect(alarm).toHaveCount(0);
  await page.reload();
  await expect(outcome(page)).toContainText('Disputed');
  await expect(page).toHaveTitle('aye');
});

test('an alarm that is marked as seen in one browser is gone from the others at once', async ({ hub, page, browser, strays }) => {
  const bot = await hub.agent('bot');
  const asks = [await bot.raise('question', database), await bot.raise('question', database)];
  for (const ask of asks) {
    await hub.answer(ask, { answers: [{ selected: ['SQLite'] }] });
    await bot.receipt(ask, 'disputed');
  }
  const other = await browser.newContext();
  watch(other, hub, strays);
  const second = await other.newPage();
  await hub.open(page, `#/asks/${asks[0]!.id}`);
  await hub.open(second, '#/history');
  const alarms = second.getByRole('alert').filter({ hasText: 'An answer was not followed' });
  await expect(alarms).toHaveCount(2);
  await page.getByRole('button', { name: 'Mark as seen' }).click();
  await expect(alarms).toHaveCount(1);
  await expect(second).toHaveTitle('⚠ aye');
  await hub.call('POST', `/api/asks/${asks[1]!.id}/seen`, hub.operator(), {});
  await expect(alarms).toHaveCount(0);
  await expect(second).toHaveTitle('aye');
  await other.close();
});

test('a half-filled form survives a reload, bound to its ask', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const ask = await bot.raise('question', database);
  await hub.open(page);
  await page.getByRole('radio', { name: /^Other/ }).check();
  await page.getByRole('textbox', { name: 'Your own answer' }).fill('A file per note');
  await page.getByRole('button', { name: 'Add a note' }).click();
  await page.getByRole('textbox', { name: 'Note' }).fill('for git');
  await page.reload();
  await expect(page.getByRole('radio', { name: /^Other/ })).toBeChecked();
  await expect(page.getByRole('textbox', { name: 'Your own answer' })).toHaveValue('A file per note');
  await expect(page.getByRole('textbox', { name: 'Note' })).toHaveValue('for git');
  const kept = await page.evaluate(() => Object.entries(localStorage).filter(([name]) => name.startsWith('aye.draft')));
  expect(kept).toHaveLength(1);
  expect(kept[0]![0]).toContain(ask.digest);
  expect(kept[0]![1]).not.toContain('SQLite');
  await press(page, 'Submit');
  await expect(outcome(page)).toContainText('A file per note');
  expect(await page.evaluate(() => Object.keys(localStorage).filter((name) => name.startsWith('aye.draft')))).toEqual([]);
});

test('a hub that is killed under an open page: nothing can be sent meanwhile, and nothing is lost', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const ask = await bot.raise('permission', command('cargo test'));
  await hub.open(page);
  await expect(page.getByRole('button', { name: 'Allow once' })).toBeEnabled();
  await page.getByRole('textbox', { name: 'Reason (optional, sent to the agent)' }).fill('half a thought');
  await hub.kill();
  await expect(page.getByText('Offline, reconnecting…')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Allow once' })).toBeDisabled();
  await expect(page.getByRole('button', { name: 'Deny', exact: true })).toBeDisabled();
  await expect(page).toHaveTitle('(1) aye');

  await hub.run();
  await expect(page.getByText('Offline, reconnecting…')).toHaveCount(0, { timeout: 20_000 });
  await expect(page.getByRole('textbox', { name: 'Reason (optional, sent to the agent)' })).toHaveValue('half a thought');
  const late = await bot.raise('question', database);
  await expect(page.getByRole('link', { name: /Which database/ })).toBeVisible();
  await press(page, 'Allow once');
  await expect(outcome(page)).toContainText('Allowed once');
  expect((await hub.ask(ask.id)).state).toBe('answered');
  expect((await hub.ask(late.id)).state).toBe('open');
});

test('what happened while the page was away is caught up with', async ({ hub, page, context }) => {
  const bot = await hub.agent('bot');
  const [first, second] = [await bot.raise('question', database), await bot.raise('permission', command('ls'))];
  await hub.open(page);
  await expect(page.getByRole('link', { name: /Run a command.*ls/ })).toBeVisible();
  await hub.kill();
  await expect(page.getByText('Offline, reconnecting…')).toBeVisible();
  await context.setOffline(true);
  await hub.run();
  await hub.answer(first, { answers: [{ selected: ['SQLite'] }] });
  await bot.withdraw(second, 'cancelled');
  await bot.raise('plan', { plan: '# A new plan' });
  await context.setOffline(false);
  await expect(page.getByRole('link', { name: /A new plan/ })).toBeVisible({ timeout: 20_000 });
  await expect(outcome(page)).toContainText('SQLite');
  await expect(page.getByRole('link', { name: /Run a command.*ls/ })).toHaveCount(0);
});

test('an ask that is withdrawn or expires while it is open says so and takes no answer', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const ask = await bot.raise('permission', command('ls'));
  await hub.open(page);
  await expect(page.getByRole('button', { name: 'Allow once' })).toBeEnabled();
  await bot.withdraw(ask, 'terminal');
  await expect(outcome(page)).toContainText('Withdrawn');
  await expect(page.getByRole('button', { name: 'Allow once' })).toHaveCount(0);

  await bot.raise('question', database, { timeout: '2s' });
  await page.getByRole('link', { name: 'Next request →' }).click();
  await expect(page.getByText(/Expires in/)).toBeVisible();
  await expect(outcome(page)).toContainText('Nobody answered in time');
});

test('new asks count in the title, are spoken, and notify when the tab is hidden', async ({ hub, page, context }) => {
  await context.grantPermissions(['notifications'], { origin: hub.address });
  await page.addInitScript(() => {
    const shown: string[] = [];
    Object.assign(globalThis, { shown });
    class Recorded {
      static permission = 'granted';
      constructor(title: string, options: { body: string }) {
        shown.push(`${title} / ${options.body}`);
      }
    }
    Object.assign(globalThis, { Notification: Recorded });
    let hidden = false;
    Object.defineProperty(document, 'hidden', { get: () => hidden });
    Object.assign(globalThis, { hide: (yes: boolean) => (hidden = yes) });
  });
  const bot = await hub.agent('bot');
  await hub.open(page);
  await expect(page.getByText('You’re all caught up')).toBeVisible();
  await expect(page).toHaveTitle('aye');
  const shown = () => page.evaluate(() => (globalThis as unknown as { shown: string[] }).shown);
  await bot.raise('question', database);
  await expect(page).toHaveTitle('(1) aye');
  await expect(page.locator('[aria-live=polite]').first()).toContainText('Which database');
  await expect(page.locator('#favicon')).toHaveAttribute('href', /^data:image\/svg\+xml/);
  expect(await shown()).toEqual([]);
  await page.evaluate(() => (globalThis as unknown as { hide: (yes: boolean) => void }).hide(true));
  await bot.raise('permission', command('make'));
  await expect.poll(shown).toEqual(['bot wants to run a command / make']);
  await expect(page).toHaveTitle('(2) aye');
});

test('the question whether to notify is asked once, and only acted upon when wanted', async ({ hub, page }) => {
  await page.addInitScript(() => {
    Object.defineProperty(Notification, 'permission', { get: () => 'default' });
    Notification.requestPermission = () => {
      localStorage.setItem('test.requested', 'yes');
      return Promise.resolve('granted');
    };
  });
  await hub.open(page);
  await page.getByRole('button', { name: 'Not now', exact: true }).click();
  expect(await page.evaluate(() => localStorage.getItem('test.requested'))).toBeNull();
  await page.reload();
  await expect(page.getByText('Connect your first agent')).toBeVisible();
  await expect(page.getByText('Get notified of new requests')).toHaveCount(0);
});

test('a browser that is not signed in is told how, and a signed-in one is out once it is revoked', async ({ hub, page }) => {
  await page.goto(hub.address);
  await expect(page.getByRole('heading', { name: 'This browser is not signed in' })).toBeVisible();
  await hub.open(page);
  await expect(page.getByText('Connect your first agent')).toBeVisible();
  const tokens = await hub.call<{ tokens: { id: string; surface: string | null }[] }>('GET', '/api/tokens', hub.operator());
  for (const token of tokens.body.tokens.filter((each) => each.surface === 'web')) {
    await hub.call('DELETE', `/api/tokens/${token.id}`, hub.operator());
  }
  await expect(page.getByRole('heading', { name: 'This browser is not signed in' })).toBeVisible();
});
