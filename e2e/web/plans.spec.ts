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
  await page.getByRole('textbox', { name: /Your version of the plan/ }).fill('1. The very least.');
  await press(page, 'Approve my version');
  await expect(page.getByText('Approved, edited')).toBeVisible();
  expect((await hub.ask(ask.id))['answer']).toEqual({ decision: 'allow', plan: '1. The very least.' });
});

test('comments on lines become the feedback, and the next version shows what changed', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const ask = await bot.raise('plan', { plan });
  await hub.open(page);
  await page.getByRole('textbox', { name: /Feedback/ }).fill('Smaller steps.');
  await page.getByRole('button', { name: 'Source', exact: true }).click();
  await page.getByRole('button', { name: 'Comment on line 4' }).click();
  await page.getByRole('textbox', { name: 'Comment on line 4' }).fill('as CSV, too');
  await press(page, 'Send back with feedback');
  await expect(outcome(page)).toContainText('Answered');
  expect((await hub.ask(ask.id))['answer']).toEqual({
    decision: 'deny',
    message: 'Smaller steps.\n\nLine 4 (2. Write the `export`.): as CSV, too',
  });

  await bot.raise('plan', { plan: plan.replace('`export`', '`export`, as CSV too') });
  await page.getByRole('link', { name: 'Next request →' }).click();
  await page.getByRole('button', { name: 'Changes' }).click();
  const diff = page.getByRole('group', { name: 'Changes since the last version', exact: true });
  await expect(diff.locator('.removed')).toContainText('2. Write the `export`.');
  await expect(diff.locator('.added')).toContainText('as CSV too');
});

test('a plan put on hold for an outline can be approved after all, and then passes once', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const first = await bot.raise('plan', { plan });
  await hub.open(page);
  await press(page, 'Ask for an outline');
  const held = page.getByRole('region', { name: 'Plan on hold' });
  await expect(held).toBeVisible();
  expect((await hub.ask(first.id))['answer']).toEqual({ decision: 'outline' });
  await expect(page.getByRole('heading', { name: 'Ship it' })).toBeVisible();
  await press(page, 'Approve this plan after all');
  await expect(held).toHaveCount(0);
  const again = await bot.raise('plan', { plan });
  expect((await hub.ask(again.id)).state).toBe('answered');
});

test('a plan on hold can be sent back for good', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  await bot.raise('plan', { plan });
  await hub.open(page);
  await press(page, 'Ask for an outline');
  await press(page, 'Send it back for good');
  await expect(page.getByRole('region', { name: 'Plan on hold' })).toHaveCount(0);
  const again = await bot.raise('plan', { plan });
  expect((await hub.ask(again.id)).state).toBe('open');
});

test('what was said about a plan goes along when it is approved', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const ask = await bot.raise('plan', { plan });
  await hub.open(page);
  await page.getByRole('button', { name: 'Source', exact: true }).click();
  await page.getByRole('button', { name: 'Comment on line 4' }).click();
  await page.getByRole('textbox', { name: 'Comment on line 4' }).fill('as CSV, too');
  await expect(page.getByRole('button', { name: 'Approve', exact: true })).toHaveCount(0);
  await press(page, 'Approve with feedback');
  await expect(outcome(page)).toContainText('Answered');
  expect((await hub.ask(ask.id))['answer']).toEqual({
    decision: 'allow',
    plan: `${plan}\n\n## Notes from the reviewer\n\nLine 4 (2. Write the \`export\`.): as CSV, too\n`,
  });
});

test('what is approved stands there: numbers as they were written, and every character in the source', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  await bot.raise('plan', { plan: '3. Third\r\n1. First\r\n\r\n07) Seventh\r\n\r\n1. [x] Done' });
  await hub.open(page);
  const marks = await page.locator('.page li').evaluateAll((items) => items.map((item) => getComputedStyle(item).listStyleType));
  expect(marks).toEqual(['"3. "', '"1. "', '"07) "', '"1. "']);
  await expect(page.getByText('Lines of this plan end with CR LF.')).toBeVisible();
  await page.getByRole('button', { name: 'Source', exact: true }).click();
  const lines = page.locator('.lines .text');
  await expect(lines).toHaveText(['3. Third\\r', '1. First\\r', '\\r', '07) Seventh\\r', '\\r', '1. [x] Done']);
  await expect(lines.first().locator('.esc')).toHaveText('\\r');
});
