import type { Page } from '@playwright/test';
import { expect, test, watch } from './support';

test('what is out of sight is drawn only once the text no longer rushes by', async ({ hub, page }) => {
  const bot = await hub.agent('bot', { kind: 'claude', reach: 'driven' });
  await hub.open(page, '#/agents/bot');
  await expect(page.getByText('No messages yet.')).toBeVisible();
  await page.evaluate(() => {
    const conversation = document.querySelector('.conversation')!;
    const seen = new MutationObserver(() => {
      const rows = conversation.querySelectorAll('[role=listitem]').length;
      if (!rows) return;
      seen.disconnect();
      Object.assign(globalThis, { drawnFirst: rows });
    });
    seen.observe(conversation, { childList: true, subtree: true });
  });
  const paragraphs = Array.from({ length: 100 }, (_, i) => `Paragraph ${i}.\n\n`).join('');
  await bot.say({ type: 'text', id: 't1', delta: paragraphs });
  await expect(page.getByText('Paragraph 99.')).toBeInViewport();
  const box = page.locator('.conversation .box');
  const height = await box.evaluate((element) => element.clientHeight);
  // Before any is measured, a row is taken for 64 pixels tall.
  expect(await page.evaluate(() => (globalThis as unknown as { drawnFirst: number }).drawnFirst)).toBeLessThanOrEqual(Math.ceil(height / 64) + 2);
  await expect
    .poll(() => box.evaluate((element) => element.getBoundingClientRect().top - element.querySelector('[role=listitem]')!.getBoundingClientRect().top))
    .toBeGreaterThan(400);
});

/** Everything in a conversation, read from its beginning to its end as a person would scroll. */
async function readAll(page: Page): Promise<string> {
  return page.evaluate(async () => {
    const box = document.querySelector('.conversation .box')!;
    const found = new Map<number, string>();
    const frames = async (): Promise<void> => {
      for (let i = 0; i < 2; i += 1) await new Promise(requestAnimationFrame);
    };
    const look = (): void => {
      for (const row of box.querySelectorAll('[role=listitem]')) found.set(Number(row.getAttribute('aria-posinset')), row.textContent ?? '');
    };
    for (box.scrollTop = 0; ; box.scrollTop += 500) {
      await frames();
      look();
      if (box.scrollTop + box.clientHeight >= box.scrollHeight - 2) break;
    }
    return [...found].sort(([a], [b]) => a - b).map(([, text]) => text.trim()).join('\n');
  });
}

test('whoever was there, came late or lost the connection reads the same text, with nothing missing, doubled or out of order', async ({ hub, page, browser, strays }) => {
  const bot = await hub.agent('bot', { kind: 'claude', reach: 'driven' });
  await hub.open(page, '#/agents/bot');
  const another = async (): Promise<Page> => {
    const context = await browser.newContext();
    watch(context, hub, strays);
    return context.newPage();
  };
  const cut = await another();
  await hub.open(cut, '#/agents/bot');
  await expect(page.getByText('No messages yet.')).toBeVisible();
  await expect(cut.getByText('No messages yet.')).toBeVisible();
  const line = (i: number): string => `Line ${i} of the 🦀 text.${i % 8 === 7 ? '\n\n' : '\n'}`;
  const stream = async (from: number, to: number): Promise<void> => {
    for (let i = from; i < to; i += 20) {
      await bot.say(...Array.from({ length: 20 }, (_, k) => ({ type: 'text', id: 't1', delta: line(i + k) })));
    }
  };
  await stream(0, 160);
  await cut.context().setOffline(true);
  await stream(160, 320);
  const late = await another();
  const opened = hub.open(late, '#/agents/bot');
  await stream(320, 480);
  await cut.context().setOffline(false);
  await stream(480, 640);
  await opened;
  const whole = Array.from({ length: 640 }, (_, i) => line(i)).join('');
  const expected = whole.trim().replaceAll('\n\n', '\n');
  for (const reader of [page, cut, late]) {
    await expect(reader.getByText('Line 639 of the 🦀 text.')).toBeInViewport({ timeout: 20_000 });
    expect(await readAll(reader)).toBe(expected);
  }
  // And so it stays once the text is complete.
  await bot.say({ type: 'text', id: 't1', text: whole }, { type: 'turn', error: false });
  for (const reader of [page, cut, late]) {
    await expect(reader.getByText('Turn finished')).toBeInViewport();
    expect(await readAll(reader)).toBe(`${expected}\nTurn finished`);
  }
});
