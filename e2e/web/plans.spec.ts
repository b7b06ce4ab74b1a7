import { expect, outcome, press, test } from './support';

const plan = '# Ship it\n\n1. Freeze the **schema**.\n2. Write the `export`.\n3. Tag 0.1.0.';

test('a plan is rendered, and approved', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const ask = await bot.raise('plan', { plan });
  await hub.open(page);
  await expect(page.getByRole('heading', { name: 'Ship it' })).toBeVisible();
  await expect(page.locator('.page strong')).toHaveText('schema');
  await press(page, 'Approve');
  await expect(outcome(page)).toContainText('Answered');
  expect((await hub.ask(ask.id))['answer']).toEqual({ decision: 'allow' });
});

test('a plan is approved edited', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const ask = await bot.raise('plan', { plan });
  await hub.open(page);
  await page.getByRole('button', { name: 'Edit', exact: true }).click();
  await page.getByRole('textbox', { name: /approved instead/ }).fill('1. The very least.');
  await press(page, 'Approve edited');
  await expect(page.getByText('Approved, edited')).toBeVisible();
  expect((await hub.ask(ask.id))['answer']).toEqual({ decision: 'allow', plan: '1. The very least.' });
});

test('comments on lines become the feedback, and the next version shows what changed', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const ask = await bot.raise('plan', { plan });
  await hub.open(page);
  await page.getByRole('textbox', { name: /Feedback/ }).fill('Smaller steps.');
  await page.getByRole('button', { name: 'Comment on lines' }).click();
  await page.getByRole('button', { name: 'Comment on line 4' }).click();
  await page.getByRole('textbox', { name: 'Comment on line 4' }).fill('as CSV, too');
  await press(page, 'Refuse with feedback');
  await expect(outcome(page)).toContainText('Answered');
  expect((await hub.ask(ask.id))['answer']).toEqual({
    decision: 'deny',
    message: 'Smaller steps.\n\nLine 4 (2. Write the `export`.): as CSV, too',
  });

  await bot.raise('plan', { plan: plan.replace('`export`', '`export`, as CSV too') });
  await page.getByRole('link', { name: 'Next ask →' }).click();
  await page.getByRole('button', { name: 'What changed' }).click();
  const diff = page.getByRole('region', { name: 'Changes since the refused version' });
  await expect(diff.locator('.removed')).toContainText('2. Write the `export`.');
  await expect(diff.locator('.added')).toContainText('as CSV too');
});

test('pause and outline: meanwhile the refused plan can be approved, and then passes once', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const first = await bot.raise('plan', { plan });
  await hub.open(page);
  await press(page, 'Pause and outline');
  const awaited = page.getByRole('article', { name: /outline is awaited/ });
  await expect(awaited).toBeVisible();
  expect((await hub.ask(first.id))['answer']).toEqual({ decision: 'outline' });
  await awaited.getByText('The plan that was refused meanwhile').click();
  await expect(awaited.getByRole('heading', { name: 'Ship it' })).toBeVisible();
  await press(page, 'Approve plan', /outline is awaited/);
  await expect(awaited).toHaveCount(0);
  const again = await bot.raise('plan', { plan });
  expect((await hub.ask(again.id)).state).toBe('answered');
});

test('the refused plan behind an outline can be denied for good', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  await bot.raise('plan', { plan });
  await hub.open(page);
  await press(page, 'Pause and outline');
  const awaited = page.getByRole('article', { name: /outline is awaited/ });
  await press(page, 'Deny', /outline is awaited/);
  await expect(awaited).toHaveCount(0);
});
