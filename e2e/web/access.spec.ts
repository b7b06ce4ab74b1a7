import { violations } from './axe';
import { everything } from './scene';
import { command, database, expect, press, ready, test, watch, wheel } from './support';

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
    for (const empty of ['agents', 'history', 'policy']) {
      await page.evaluate((to) => void (location.hash = `#/${to}`), empty);
      await expect(page.getByRole('heading', { level: 1 })).toBeVisible();
      expect(await violations(page), `no ${empty}`).toEqual([]);
    }
    const scene = await everything(hub);
    const views: [string, string][] = [
      ...scene.open.map((ask): [string, string] => [`#/asks/${ask.id}`, 'article']),
      [`#/asks/${scene.answered.id}`, '.outcome'],
      ['#/agents', '[aria-label=Agents]'],
      [`#/agents/${scene.agent}`, '.conversation details'],
      ['#/start', 'form'],
      ['#/history', 'main li'],
      ['#/policy', 'main ol'],
      ['#/settings', 'main li'],
      ['#/passkeys', '.shell'],
      ['#/history?words=nowhere', '.nothing'],
      ['#/asks/nothing', '.nothing'],
      ['#/agents/nothing', '.nothing'],
      ['#/nowhere', '.nowhere'],
    ];
    for (const [view, sign] of views) {
      await page.evaluate((hash) => void (location.hash = hash), view);
      await expect(page.locator(sign).first()).toBeVisible();
      expect(await violations(page), view).toEqual([]);
    }
    await page.evaluate((id) => void (location.hash = `#/asks/${id}`), scene.plan.id);
    for (const name of ['Source', 'Edit', 'Changes']) {
      await page.getByRole('button', { name, exact: true }).click();
      expect(await violations(page), name).toEqual([]);
    }
    await hub.kill();
    await expect(page.getByText('Offline, reconnecting…')).toBeVisible();
    expect(await violations(page), 'disconnected').toEqual([]);
  });
}

for (const colorScheme of ['light', 'dark'] as const) {
  for (const [size, viewport] of Object.entries({ wide: { width: 1280, height: 860 }, phone: { width: 390, height: 700 }, zoomed: { width: 320, height: 215 } })) {
    test(`axe finds nothing wrong in any state of a card, ${size}, ${colorScheme}`, async ({ hub, page }) => {
      test.setTimeout(180_000);
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize(viewport);
      const bot = await hub.agent('bot', { kind: 'claude', reach: 'driven', session: 's' });
      const check = async (state: string): Promise<void> => {
        expect(await violations(page), state).toEqual([]);
        expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${state} fits`).toBe(true);
      };
      const show = async (id: string): Promise<void> => {
        await page.evaluate((to) => void (location.hash = `#/asks/${to}`), id);
        await expect(page.locator(`[data-ask="${id}"]`)).toBeVisible();
        await ready(page);
      };
      await hub.open(page);
      const scopes = [{ scope: 'once' }, { scope: 'session', rule: 'npm run *' }, { scope: 'always', kept_by: 'hub' }];
      const long = await bot.raise('permission', command(`${'echo on and on &&\n'.repeat(200)}make`, scopes), { timeout: '30s' });
      await show(long.id);
      await check('a long command');
      const edit = await bot.raise('permission', { tool: 'Edit', input: { file_path: 'a.ts', old_string: 'const a = 1; // x', new_string: 'const a = "2"; // x', replace_all: true }, before: { places: [{ old_start: 2, new_start: 2, above: ['import b'] }] }, scopes });
      await show(edit.id);
      await expect(page.locator('.tok-k').first()).toBeVisible();
      await check('a diff');
      await page.getByRole('button', { name: 'Edit first' }).click();
      await page.getByRole('textbox', { name: /Your version/ }).fill('{"a": ');
      await check('a mistake in an edited input');
      await hub.answer(edit, { decision: 'deny', message: 'not like this' });
      await expect(page.locator('.outcome')).toContainText('Denied: not like this');
      await check('a denied request');
      const json = await bot.raise('permission', { tool: 'F\u0435tch', input: { url: 'http://a.example', n: [1, true, null] }, scopes });
      await show(json.id);
      await check('JSON with a caution');
      const question = await bot.raise('question', { questions: [{ ...database.questions[0], options: [{ label: 'A', preview: '# T\n\n```js\nlet a = 1\n```' }, { label: 'B' }] }, { question: 'And?', header: 'B', free_text: true, options: [{ label: 'C' }] }] });
      await show(question.id);
      await page.getByRole('button', { name: 'Add a note' }).first().click();
      await page.getByRole('textbox', { name: 'Your own answer' }).first().click();
      await check('a question with a note and an own answer');
      await page.getByRole('button', { name: 'Skip all…' }).click();
      await check('a question to be skipped');
      await page.getByRole('button', { name: 'Reply in your own words' }).click();
      await check('a question to be replied to');
      await page.getByRole('textbox', { name: 'Reply in your own words' }).fill('both');
      await hub.answer(question, { skip: true });
      await expect(page.getByRole('status', { name: 'Your answer' })).toBeVisible();
      await check('a draft that somebody overtook');
      const plan = await bot.raise('plan', { plan: `# P\n\n- [x] a\n\n| a | b |\n|---|---|\n| ${'wide '.repeat(40)} | c |\n\n> q\n\n${'- step\n'.repeat(80)}` });
      await show(plan.id);
      await check('a long plan');
      await page.getByRole('button', { name: 'Source', exact: true }).click();
      await page.getByRole('button', { name: 'Comment on line 1', exact: true }).click();
      await page.getByRole('textbox', { name: 'Comment on line 1' }).fill('why');
      await check('a plan with a comment');
      await page.getByRole('button', { name: 'Edit', exact: true }).click();
      await check('a plan that is edited');
      await page.getByRole('button', { name: 'Plan', exact: true }).click();
      await wheel(page, 150);
      await press(page, 'Ask for an outline');
      await expect(page.getByRole('region', { name: 'Plan on hold' })).toBeVisible();
      await check('a plan on hold');
      const disputed = await bot.raise('question', database);
      await hub.answer(disputed, { answers: [{ selected: ['SQLite'] }] });
      await bot.receipt(disputed, 'disputed');
      await show(disputed.id);
      await expect(page.getByRole('button', { name: 'Mark as seen' })).toBeVisible();
      await check('a disputed answer');
      await page.evaluate(() => void (location.hash = '#/'));
      for (const target of ['y', 'z']) await bot.raise('permission', command(`make ${target}`));
      await page.getByRole('button', { name: 'Filter', exact: true }).click();
      await page.getByRole('button', { name: 'Group by agent' }).click();
      await page.getByRole('button', { name: 'Select', exact: true }).click();
      await check('an inbox that is filtered, grouped and selected from');
      await page.keyboard.press('?');
      await expect(page.getByRole('dialog')).toBeVisible();
      await check('the keys');
      await page.keyboard.press('Escape');
      await page.evaluate(() => void (location.hash = '#/agents/bot'));
      await expect(page.getByRole('article')).toBeVisible();
      await check('a conversation');
      await page.getByRole('button', { name: 'Rename' }).click();
      await check('an agent that is renamed');
    });
  }
}

test('fingers have room, and fields are large enough not to be zoomed into', async ({ hub, browser, strays }) => {
  const phone = await browser.newContext({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  watch(phone, hub, strays);
  const page = await phone.newPage();
  const scene = await everything(hub);
  await hub.open(page);
  const views: [string, string][] = [
    ['#/', '[aria-label=Inbox]'],
    ...scene.open.map((ask): [string, string] => [`#/asks/${ask.id}`, `[data-ask="${ask.id}"]`]),
    ['#/agents', '[aria-label=Agents]'],
    ['#/agents/notes', '[aria-label=Conversation] article'],
    ['#/history', 'main li'],
    ['#/settings', 'main li'],
    ['#/start', 'form'],
  ];
  for (const [view, sign] of views) {
    await page.evaluate((hash) => void (location.hash = hash), view);
    await expect(page.locator(sign).first()).toBeVisible();
    const small = await page.evaluate(() => {
      const seen = [...document.querySelectorAll<HTMLElement>('button, select, textarea, input[type=text], input[type=search], nav a')].filter((element) => element.offsetParent);
      return seen
        .filter((element) => {
          const { width, height } = element.getBoundingClientRect();
          const text = element.matches('input, textarea, select') ? parseFloat(getComputedStyle(element).fontSize) : 16;
          return height < 43.5 || width < 43.5 || text < 16;
        })
        .map((element) => `${element.tagName} ${element.textContent?.trim().slice(0, 20)} ${Math.round(element.getBoundingClientRect().width)}x${Math.round(element.getBoundingClientRect().height)}`);
    });
    expect(small, view).toEqual([]);
  }
  await phone.close();
});

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
