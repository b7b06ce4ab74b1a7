import { join } from 'node:path';
import { everything } from './scene';
import { database, expect, outcome, pictures, press, ready, swipe, test } from './support';


test('on a phone the list comes first, a card fills the screen, and nothing is wider than it', async ({ hub, page }) => {
  await page.addInitScript(() => localStorage.setItem('aye.notify', 'asked'));
  const scene = await everything(hub);
  await hub.open(page);
  const picture = (name: string): Promise<Buffer> => page.screenshot({ path: join(pictures(), `phone-${name}.png`), animations: 'disabled' });
  const fits = async (): Promise<void> => {
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
  };
  await expect(page.getByRole('list', { name: /Open requests/ }).getByRole('listitem')).toHaveCount(4);
  await expect(page.getByRole('article')).toHaveCount(0);
  await fits();
  await picture('inbox');
  await page.getByRole('link', { name: /rsync/ }).tap();
  await ready(page);
  await fits();
  await picture('permission');
  await page.getByRole('link', { name: '← All requests' }).tap();
  await page.getByRole('link', { name: /list of notes look/ }).tap();
  await page.getByText('Cards', { exact: true }).tap();
  await page.getByText('Search', { exact: true }).tap();
  await fits();
  await picture('question');
  await press(page, 'Submit');
  await expect(outcome(page)).toContainText('Cards');
  expect((await hub.ask(scene.question.id))['answer']).toEqual({ answers: [{ selected: ['Cards'] }, { selected: ['Search'] }] });
  for (const view of ['#/agents', '#/agents/notes', '#/history', '#/policy', '#/start']) {
    await page.evaluate((hash) => void (location.hash = hash), view);
    await expect(page.getByRole('heading', { level: 1 })).toBeVisible();
    await fits();
  }
  await page.evaluate(() => void (location.hash = '#/agents/notes'));
  await expect(page.locator('.conversation details').first()).toBeVisible();
  await picture('agent');
});

test('a finger scrolls the history to its oldest entry', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  for (let i = 0; i < 30; i += 1) await hub.answer(await bot.raise('question', database), { skip: true, message: `number-${i}-` });
  await hub.open(page, '#/history');
  await expect(page.getByText('number-29-')).toBeInViewport();
  await expect(page.getByText('number-0-')).not.toBeInViewport();
  await expect(async () => {
    await swipe(page);
    await expect(page.getByText('number-0-')).toBeInViewport({ timeout: 200 });
  }).toPass();
});

test('a line of a command never ends in the middle of an option', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  // Each option ends one column further right, so that one of them meets the edge at its hyphens, whatever the font.
  const options = Array.from({ length: 30 }, (_, n) => `${'x'.repeat((n % 7) + 1)} --delete-excluded`).join(' ');
  await bot.raise('permission', { tool: 'Bash', input: { command: `rsync ${options}` } });
  await hub.open(page);
  await page.getByRole('link', { name: /rsync/ }).tap();
  const command = page.locator('[data-piece=command]');
  await expect(command).toContainText('--delete-excluded');
  const rows = await command.evaluate((pre) => {
    const text = document.createTreeWalker(pre, NodeFilter.SHOW_TEXT);
    const range = document.createRange();
    const broken: number[] = [];
    for (let node = text.nextNode(); node; node = text.nextNode()) {
      for (const option of (node.textContent ?? '').matchAll(/--delete-excluded/g)) {
        range.setStart(node, option.index);
        range.setEnd(node, option.index + option[0].length);
        broken.push(new Set(Array.from(range.getClientRects(), (rect) => rect.top)).size);
      }
    }
    return broken;
  });
  expect(rows).toEqual(Array(30).fill(1));
});
