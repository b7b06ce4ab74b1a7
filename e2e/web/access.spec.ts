import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from '@playwright/test';
import { everything } from './scene';
import { expect, test } from './support';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** What the checker finds wrong with what is on show. It is evaluated from outside, so the page's policy holds. */
async function violations(page: Page): Promise<string[]> {
  await page.evaluate(`${axe}; undefined`);
  return page.evaluate(async () => {
    const checker = (globalThis as unknown as { axe: { run: (what: Document) => Promise<{ violations: { id: string; nodes: { html: string; failureSummary: string }[] }[] }> } }).axe;
    const found = await checker.run(document);
    return found.violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html.slice(0, 200)} ${node.failureSummary}`));
  });
}

for (const colorScheme of ['light', 'dark'] as const) {
  test(`axe finds nothing wrong in any view, ${colorScheme}`, async ({ hub, page }) => {
    test.setTimeout(120_000);
    await page.emulateMedia({ colorScheme });
    await page.goto(hub.address);
    await expect(page.getByRole('heading', { name: /not signed in/ })).toBeVisible();
    expect(await violations(page)).toEqual([]);
    await hub.open(page);
    await expect(page.getByText('Connect your first agent')).toBeVisible();
    expect(await violations(page)).toEqual([]);
    const scene = await everything(hub);
    const views: [string, string][] = [
      ...scene.open.map((ask): [string, string] => [`#/asks/${ask.id}`, 'article']),
      [`#/asks/${scene.answered.id}`, '.outcome'],
      ['#/agents', '[aria-label=Agents]'],
      [`#/agents/${scene.agent}`, '.conversation details'],
      ['#/start', 'form'],
      ['#/history', 'main li'],
      ['#/policy', 'main ol'],
    ];
    for (const [view, sign] of views) {
      await page.evaluate((hash) => void (location.hash = hash), view);
      await expect(page.locator(sign).first()).toBeVisible();
      expect(await violations(page), view).toEqual([]);
    }
    await page.evaluate((id) => void (location.hash = `#/asks/${id}`), scene.plan.id);
    for (const name of ['Comment', 'Edit', 'Changes']) {
      await page.getByRole('button', { name, exact: true }).click();
      expect(await violations(page), name).toEqual([]);
    }
    await hub.kill();
    await expect(page.getByText('Offline, reconnecting…')).toBeVisible();
    expect(await violations(page), 'disconnected').toEqual([]);
  });
}

test('everything on a card can be reached by Tab, in the order in which it is read', async ({ hub, page }) => {
  const scene = await everything(hub);
  await hub.open(page, `#/asks/${scene.open[0]!.id}`);
  await expect(page.getByRole('article')).toBeVisible();
  await page.evaluate(() => document.getElementById('main')?.focus());
  const reached: string[] = [];
  for (let i = 0; i < 40; i += 1) {
    await page.keyboard.press('Tab');
    const name = await page.evaluate(() => {
      const at = document.activeElement;
      return at?.closest('article') ? (at.getAttribute('aria-label') ?? at.closest('label')?.textContent ?? at.textContent ?? '').trim().slice(0, 20) : '';
    });
    if (name) reached.push(name);
  }
  const order = ['Rows', 'Add a note', 'Dark mode', 'Reply in your own wo', 'Skip all'].map((name) => reached.findIndex((each) => each.startsWith(name)));
  expect(order.every((at) => at >= 0), reached.join(' | ')).toBe(true);
  expect(order).toEqual([...order].sort((a, b) => a - b));
});
