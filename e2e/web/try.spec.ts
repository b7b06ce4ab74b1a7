import { command, database, expect, test } from './support';
test('try', async ({ hub, page }) => {
  const bot = await hub.agent('bot', { title: 'notes: first release' });
  await bot.raise('question', database);
  await bot.raise('permission', command('cargo test --workspace && git push', [{ scope: 'once' }, { scope: 'session' }, { scope: 'always', rule: 'Run cargo test anywhere' }]));
  await bot.raise('plan', { plan: '# Ship the first release\n\n1. Freeze the **schema**.\n2. Write the `export`.\n3. Tag 0.1.0.\n\n- [x] done\n- [ ] open\n' });
  await hub.open(page);
  await page.waitForTimeout(800);
  await page.screenshot({ path: '/tmp/page-log/1.png' });
  await page.keyboard.press('j');
  await page.waitForTimeout(600);
  await page.screenshot({ path: '/tmp/page-log/2.png' });
  await page.keyboard.press('j');
  await page.waitForTimeout(600);
  await page.screenshot({ path: '/tmp/page-log/3.png' });
  await expect(page.getByRole('article')).toBeVisible();
});
