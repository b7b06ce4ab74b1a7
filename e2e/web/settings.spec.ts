import { violations } from './axe';
import { expect, outcome, database, test, watch } from './support';

test('browsers are seen, named and signed out, one or all others', async ({ hub, page, browser, strays }) => {
  await hub.open(page);
  const others = [];
  for (let i = 0; i < 2; i += 1) {
    const context = await browser.newContext();
    watch(context, hub, strays);
    const other = await context.newPage();
    await hub.open(other);
    others.push(other);
  }
  await page.evaluate(() => void (location.hash = '#/settings'));
  const list = page.getByRole('region', { name: 'Browsers' }).getByRole('listitem');
  await expect(list).toHaveCount(3);
  await expect(list.first()).toContainText(/Chrome on Linux.*This browser/s);
  await list.first().getByRole('button', { name: 'Rename' }).click();
  await page.getByRole('textbox', { name: 'Name of this browser' }).fill('My <b>laptop</b>');
  await page.getByRole('button', { name: 'Save' }).click();
  await expect(list.first()).toContainText('My <b>laptop</b>');
  await page.reload();
  await expect(list.first()).toContainText('My <b>laptop</b>');
  await list.nth(1).getByRole('button', { name: 'Sign out…' }).click();
  await list.nth(1).getByRole('button', { name: 'Sign out that browser' }).click();
  await expect(list).toHaveCount(2);
  await page.getByRole('button', { name: 'Sign out all others…' }).click();
  await page.getByRole('button', { name: 'Sign out the other browser' }).click();
  await expect(list).toHaveCount(1);
  for (const other of others) await expect(other.getByRole('heading', { name: 'This browser is not signed in' })).toBeVisible();
  await list.first().getByRole('button', { name: 'Sign out…' }).click();
  await list.first().getByRole('button', { name: 'Sign out this browser' }).click();
  await expect(page.getByRole('heading', { name: 'This browser is not signed in' })).toBeVisible();
});

test('a theme is chosen and stays', async ({ hub, page }) => {
  await page.emulateMedia({ colorScheme: 'light' });
  await hub.open(page, '#/settings');
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await page.getByRole('radio', { name: 'Dark' }).check();
  const dark = await ground();
  expect(dark).not.toBe(light);
  await page.reload();
  await expect(page.getByRole('radio', { name: 'Dark' })).toBeChecked();
  expect(await ground()).toBe(dark);
  await page.getByRole('radio', { name: 'Light' }).check();
  await page.emulateMedia({ colorScheme: 'dark' });
  expect(await ground()).toBe(light);
});

test('signing in leads to where one wanted to go', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const ask = await bot.raise('question', database);
  await page.goto(`${hub.address}/#/asks/${ask.id}`);
  await expect(page.getByRole('heading', { name: 'This browser is not signed in' })).toBeVisible();
  await page.goto(await hub.signInLink());
  await expect(page).toHaveURL(`${hub.address}/#/asks/${ask.id}`);
  await expect(page.getByRole('article')).toContainText('Which database');
  await expect(outcome(page)).toHaveCount(0);
});

test('an address that leads nowhere is a page that says so', async ({ hub, page }) => {
  for (const path of ['/nothing/here', '/sign-in/used', '/#/nothing']) {
    if (path.startsWith('/#')) await hub.open(page);
    await page.goto(hub.address + path);
    await expect(page.getByText('There is nothing at this address.')).toBeVisible();
    expect(await violations(page), path).toEqual([]);
    await page.getByRole('link', { name: 'Go to the inbox' }).click();
    await expect(page).toHaveURL(/\/(#\/)?$/);
  }
  const api = await page.request.get(`${hub.address}/api/nothing`, { headers: { accept: 'text/html' } });
  expect(api.headers()['content-type']).toContain('json');
});
