import { expect, ready, test, type Body } from './support';

const SCRIPT = '<script>window.owned = 1</script><img src=x onerror="window.owned = 1"><svg onload="window.owned = 1">';
const BIDI = 'safe\u202etxt.exe\u2066\u200b\u0007\u001b[2K\u{e0041}';
const MARKDOWN = '[click](javascript:window.owned=1) ![x](http://evil.example/x.png) <http://evil.example> **b**\n\n<iframe src="http://evil.example"></iframe>';
const LONG = 'x'.repeat(10_000);
const ALL = [SCRIPT, BIDI, MARKDOWN, LONG, "'\"`{{7*7}}${7*7}%s\u0000".replace('\u0000', ''), '__proto__'];

const bodies = (text: string): [string, Body][] => [
  [
    'question',
    {
      questions: [
        {
          question: text,
          header: text,
          free_text: true,
          options: [
            { label: text, description: text, preview: text },
            { label: `${text} again`, description: text },
          ],
        },
      ],
    },
  ],
  [
    'permission',
    {
      tool: text,
      input: { command: text, [text]: text },
      scopes: [{ scope: 'once' }, { scope: 'session', rule: text }],
    },
  ],
  [
    'permission',
    {
      tool: 'Edit',
      input: { file_path: text, old_string: text, new_string: `${text} again` },
      scopes: [{ scope: 'once' }],
    },
  ],
  ['plan', { plan: text }],
];

for (const [i, text] of ALL.entries()) {
  test(`hostile text number ${i + 1} is shown as text in every field`, async ({ hub, page }) => {
    const bot = await hub.agent('bot', { title: text.slice(0, 200), cwd: `/home/${text.slice(0, 200)}` });
    const asks = [];
    for (const [kind, body] of bodies(text)) asks.push(await bot.raise(kind, body));
    await bot.say(
      { type: 'prompt', text },
      { type: 'text', id: 't1', delta: text },
      { type: 'text', id: 't1', text },
      { type: 'tool', id: text.slice(0, 50), name: text, input: { [text]: text }, sub_agent: text },
      { type: 'tool_result', id: text.slice(0, 50), failed: true, text },
      { type: 'trouble', text },
      { type: 'refused_itself', id: 't2', name: text, input: { command: text }, reason: text, sub_agent: text },
    );
    await hub.open(page);
    for (const ask of asks) {
      await page.evaluate((id) => void (location.hash = `#/asks/${id}`), ask.id);
      const card = await ready(page);
      const shown = (await card.innerText()).replace(/\s+/g, '');
      expect(shown).not.toMatch(/[\u202a-\u202e\u2066-\u2069\u200b\u0007\u001b]/);
      if (text === BIDI) expect(shown).toContain('safe\\u{202e}txt.exe\\u{2066}\\u{200b}\\u{7}\\u{1b}[2K\\u{e0041}');
      if (text === SCRIPT) expect(shown).toContain('<script>window.owned=1</script>');
      expect(await card.locator('script, img, iframe:not([sandbox=""]), svg, a[href^="javascript"], a[href*="evil"]').count()).toBe(0);
      await expect(page.locator('main')).toBeVisible();
      const wide = await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
      expect(wide, 'nothing pushes the page wider').toBe(true);
    }
    await page.evaluate(() => void (location.hash = '#/agents/bot'));
    await expect(page.getByRole('list', { name: 'Conversation' })).toBeVisible();
    // It begins at its end, and only what is in sight is drawn: the tool call is somewhere before.
    let y = 0;
    await expect(async () => {
      await page.locator('.conversation > .box').evaluate((box, to) => box.scrollTo(0, to), y);
      y += 400;
      await page.locator('.conversation details').first().locator('summary').click({ timeout: 500 });
    }).toPass({ intervals: [50] });
    for (const view of ['#/agents', '#/history?state=all', '#/policy']) {
      await page.evaluate((hash) => void (location.hash = hash), view);
      await expect(page.getByRole('heading', { level: 1 })).toBeVisible();
    }
    expect(await page.evaluate(() => (globalThis as unknown as { owned?: number }).owned)).toBeUndefined();
  });
}

test('what hides in any form of Markdown is shown, and joiners that belong to the writing are not', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const family = '\u{1f468}\u200d\u{1f469}';
  const forms = ['# h\u202e', '**b\u202e**', '_e\u202e_', '~~d\u202e~~', '`c\u202e`', '[l\u202e](t\u202e\tu)', '- i\u202e', '> q\u202e', '| a\u202e |\n|---|\n| b\u202e |'];
  await bot.raise('plan', { plan: [...forms, `${family} \`${family}\``].join('\n\n') });
  await hub.open(page);
  const card = await ready(page);
  await expect(card.locator('.esc')).toHaveText([...Array<string>(6).fill('\\u{202e}'), '\\u{202e}\\t', ...Array<string>(4).fill('\\u{202e}'), '\\u{200d}']);
  await expect(card.locator('.markdown')).not.toContainText('\u202e');
  await expect(card.locator('.markdown > p').last()).toHaveText(`${family} \u{1f468}\\u{200d}\u{1f469}`);
  for (const [element, text] of [['strong', 'b'], ['em', 'e'], ['del', 'd'], ['code', 'c'], ['li', 'i'], ['blockquote', 'q'], ['th', 'a'], ['td', 'b']] as const) {
    await expect(card.locator(`.markdown ${element}`).first()).toHaveText(`${text}\\u{202e}`);
  }
  await expect(card.locator('.link')).toHaveText('l\\u{202e} (t\\u{202e}\\tu)');
});

test('an answer that somebody else typed is text, too', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const ask = await bot.raise('question', { questions: [{ question: 'Name?', free_text: true }] });
  await hub.open(page);
  await expect(page.getByRole('article')).toBeVisible();
  await hub.answer(ask, { answers: [{ text: `${SCRIPT}\u202e` }] });
  await expect(page.locator('.outcome .said')).toContainText('<script>');
  await expect(page.locator('.outcome .esc')).toHaveText('\\u{202e}');
});

test('the page may load nothing from elsewhere and run nothing that is written into it', async ({ hub, page }) => {
  const reply = await page.goto(hub.address);
  const policy = reply!.headers()['content-security-policy']!;
  expect(policy).toContain("default-src 'none'");
  expect(policy).toContain("script-src 'self'");
  expect(policy).toContain("style-src 'self'");
  expect(policy).toContain("require-trusted-types-for 'script'");
  expect(policy).not.toMatch(/unsafe|\*|https?:/);
  const html = await reply!.text();
  expect(html).not.toMatch(/<style|style=|<script(?![^>]* src=)/);
  const script = /src="(\/assets\/[^"]+\.js)"/.exec(html)![1]!;
  const asset = await page.request.get(hub.address + script);
  expect(asset.headers()['cache-control']).toContain('immutable');
  expect(asset.headers()['content-encoding']).toBe('gzip');
});
