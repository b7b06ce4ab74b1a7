import { join } from 'node:path';
import type { Page } from '@playwright/test';
import { everything } from './scene';
import { expect, pictures, ready, test } from './support';


async function show(page: Page, hash: string, sign: string): Promise<void> {
  await page.evaluate((to) => void (location.hash = to), hash);
  await expect(page.locator(sign).first()).toBeVisible();
}

test('pictures of the main views, light and dark', async ({ hub, page }) => {
  await page.addInitScript(() => localStorage.setItem('aye.notify', 'asked'));
  await page.setViewportSize({ width: 1280, height: 800 });
  const scene = await everything(hub);
  await hub.open(page);
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    const picture = async (name: string): Promise<void> => {
      // Three in the dark show what it looks like.
      if (colorScheme === 'dark' && !['question', 'diff', 'agent'].includes(name)) return;
      await page.screenshot({ path: join(pictures(), `${name}-${colorScheme}.png`), animations: 'disabled' });
    };
    await show(page, `#/asks/${scene.question.id}`, 'article');
    await ready(page);
    if (colorScheme === 'light') {
      await page.getByText('Cards', { exact: true }).click();
      await page.getByText('Search', { exact: true }).click();
    }
    await picture('question');
    await show(page, `#/asks/${scene.permission.id}`, 'article');
    await ready(page);
    await picture('permission');
    await show(page, `#/asks/${scene.edit.id}`, '.diff');
    await ready(page);
    await picture('diff');
    await show(page, `#/asks/${scene.plan.id}`, 'article');
    await ready(page);
    await picture('plan');
    await show(page, `#/agents/${scene.agent}`, '.conversation details');
    await page.locator('.conversation > .box').hover();
    await expect(async () => {
      await page.mouse.wheel(0, -100);
      await expect(page.getByText('I read the')).toBeInViewport({ timeout: 200 });
    }).toPass({ intervals: [50] });
    await picture('agent');
    await show(page, '#/agents', '[aria-label=Agents] a');
    await picture('agents');
    await show(page, '#/history', 'main li');
    await picture('history');
    await show(page, '#/policy', 'main ol');
    await picture('policy');
    await show(page, '#/settings', 'main li');
    await picture('settings');
  }
});
