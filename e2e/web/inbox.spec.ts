import { command, database, expect, press, test } from './support';

test('the inbox is searched, filtered and grouped', async ({ hub, page }) => {
  const web = await hub.agent('web', { title: 'Website', cwd: '/home/me/src/site' });
  const notes = await hub.agent('notes', { title: 'Notes', cwd: '/home/me/src/notes' });
  await web.raise('permission', command('npm run build'));
  await notes.raise('question', database);
  await web.raise('plan', { plan: '# New landing page' });
  await notes.raise('permission', command('cargo test'));
  await hub.open(page);
  const rows = page.getByRole('list', { name: /Open requests/ }).getByRole('link');
  await expect(rows).toHaveCount(4);
  await expect(page.getByText('4 waiting')).toBeVisible();
  const search = page.getByRole('searchbox', { name: 'Search requests' });
  for (const [words, found] of [['LANDING', 1], ['notes', 2], ['cargo', 1], ['src/site', 2], ['nowhere', 0]] as const) {
    await search.fill(words);
    await expect(rows, words).toHaveCount(found);
  }
  await expect(page.getByText('No requests match.')).toBeVisible();
  await page.getByRole('button', { name: 'Clear' }).click();
  await page.getByRole('button', { name: 'Filter', exact: true }).click();
  await page.getByRole('combobox', { name: 'Kind' }).selectOption('permission');
  await expect(rows).toHaveCount(2);
  await page.getByRole('combobox', { name: 'Agent' }).selectOption('notes');
  await expect(rows).toHaveCount(1);
  await page.getByRole('button', { name: 'Clear' }).click();
  await page.getByRole('combobox', { name: 'Project' }).selectOption('/home/me/src/site');
  await expect(rows).toHaveCount(2);
  await page.getByRole('button', { name: 'Clear' }).click();
  await page.getByRole('button', { name: 'Group by agent' }).click();
  await expect(page.getByRole('heading', { name: 'Website 2' })).toBeVisible();
  await expect(rows).toHaveText([/npm run build/, /New landing page/, /Which database/, /cargo test/]);
});

test('age and deadline are told apart', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  await bot.raise('permission', command('make'), { timeout: '45m' });
  await hub.open(page);
  const row = page.getByRole('link', { name: /make/ });
  await expect(row).toContainText(/expires in 4\d min/);
  await expect(row).toContainText('just now');
});

test('a fresh inbox says how to connect the first agent, with commands to copy', async ({ hub, page, context }) => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: hub.address });
  await hub.open(page);
  await expect(page.getByRole('heading', { name: 'Connect your first agent' })).toBeVisible();
  await page.getByRole('button', { name: 'Copy: aye hooks install' }).click();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe('aye hooks install');
  const bot = await hub.agent('bot');
  await expect(page.getByText('You’re all caught up')).toBeVisible();
  await bot.raise('question', database);
  await expect(page.getByRole('article')).toBeVisible();
});

test('? shows the keys, and not while one types', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  await bot.raise('permission', command('make'));
  await hub.open(page);
  await page.getByRole('textbox').first().fill('?');
  await page.getByRole('textbox').first().press('?');
  await expect(page.getByRole('dialog')).toHaveCount(0);
  await page.getByRole('article').click({ position: { x: 5, y: 5 } });
  await page.keyboard.press('?');
  await expect(page.getByRole('dialog', { name: 'Keyboard' })).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(page.getByRole('dialog')).toHaveCount(0);
  await page.getByRole('button', { name: 'Keyboard' }).click();
  await expect(page.getByRole('dialog', { name: 'Keyboard' })).toBeVisible();
});

test('after an answer the keys go on from the card that was answered', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  await bot.raise('permission', command('make a'));
  await bot.raise('permission', command('make b'));
  await hub.open(page);
  await press(page, 'Allow once');
  await expect(page.locator('.outcome')).toBeFocused();
  await page.keyboard.press('Tab');
  await expect(page.getByRole('link', { name: 'Next request →' })).toBeFocused();
});
