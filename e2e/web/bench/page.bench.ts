import { cpus, loadavg } from 'node:os';
import type { Page, TestInfo } from '@playwright/test';
import { expect, test, type Agent, type Body } from '../support';

function figure(info: TestInfo, what: string, measured: string, goal = '', met?: boolean): void {
  info.annotations.push({ type: 'figure', description: JSON.stringify({ what, measured, goal, met }) });
}

const share = (sorted: number[], part: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0;

interface Frames {
  gaps: number[];
  tasks: number[];
}

/** From now on: how long each frame takes, and every piece of work that holds the page up. */
async function watchFrames(page: Page): Promise<() => Promise<Frames>> {
  await page.evaluate(() => {
    const frames: Frames = { gaps: [], tasks: [] };
    Object.assign(globalThis, { frames });
    new PerformanceObserver((list) => frames.tasks.push(...list.getEntries().map((entry) => entry.duration))).observe({ type: 'longtask' });
    let last = performance.now();
    const next = (now: number): void => {
      frames.gaps.push(now - last);
      last = now;
      requestAnimationFrame(next);
    };
    requestAnimationFrame((now) => {
      last = now;
      requestAnimationFrame(next);
    });
  });
  return () => page.evaluate(() => (globalThis as unknown as { frames: Frames }).frames);
}

function report(info: TestInfo, what: string, { gaps, tasks }: Frames): void {
  const sorted = [...gaps].sort((a, b) => a - b);
  const [longest, task] = [sorted.at(-1) ?? 0, Math.max(0, ...tasks)];
  const over = gaps.filter((gap) => gap > 50).length;
  figure(info, `${what}: frames over 50 ms`, `${over} of ${gaps.length}; longest ${longest.toFixed(0)} ms, p99 ${share(sorted, 0.99).toFixed(0)} ms`, 'none', over === 0);
  figure(info, `${what}: longest work of the page`, task ? `${task.toFixed(0)} ms` : 'under 50 ms', '≤ 50 ms', task <= 50);
}

test('size', async ({ hub, page }, info) => {
  const html = await (await page.goto(hub.address))!.text();
  let total = 0;
  for (const [, path] of html.matchAll(/(?:src|href)="(\/assets\/[^"]+\.(?:js|css))"/g)) {
    const reply = await fetch(hub.address + path!, { headers: { 'Accept-Encoding': 'gzip' } });
    total += Number(reply.headers.get('content-length'));
  }
  expect(total).toBeGreaterThan(10_000);
  figure(info, 'script and style, compressed', `${(total / 1000).toFixed(1)} kB`, '≤ 100 kB', total <= 100_000);
  figure(info, 'machine', `${cpus().length} × ${cpus()[0]?.model ?? '?'}, load ${loadavg()[0]?.toFixed(1)}`);
});

test('raise to visible', async ({ hub, page }, info) => {
  const bot = await hub.agent('bot');
  await hub.open(page);
  await expect(page.getByText('You’re all caught up')).toBeVisible();
  await page.evaluate(() => {
    const seen: Record<string, number> = {};
    Object.assign(globalThis, { seen });
    new MutationObserver(() => {
      const rows = document.querySelectorAll('.subject');
      requestAnimationFrame(() => {
        for (const row of rows) seen[row.textContent ?? ''] ??= Date.now();
      });
    }).observe(document.body, { childList: true, subtree: true, characterData: true });
  });
  const times: number[] = [];
  for (let i = 0; i < 200; i += 1) {
    const question = `Ask number ${i}?`;
    const begun = Date.now();
    const ask = await bot.raise('question', { questions: [{ question, options: [{ label: 'yes' }, { label: 'no' }] }] });
    await expect
      .poll(() => page.evaluate((name) => (globalThis as unknown as { seen: Record<string, number> }).seen[name] ?? 0, question), { intervals: [5] })
      .toBeGreaterThan(0);
    const seen = await page.evaluate((name) => (globalThis as unknown as { seen: Record<string, number> }).seen[name]!, question);
    times.push(seen - begun);
    await hub.answer(ask, { answers: [{ selected: ['yes'] }] });
  }
  times.sort((a, b) => a - b);
  figure(info, 'from raise to visible, p50 of 200', `${share(times, 0.5)} ms`);
  figure(info, 'from raise to visible, p95 of 200', `${share(times, 0.95)} ms`, '≤ 100 ms', share(times, 0.95) <= 100);
});

test('1,000 open asks', async ({ hub, page }, info) => {
  const bot = await hub.agent('bot');
  const raise = (i: number): Promise<unknown> =>
    bot.raise(i % 2 ? 'permission' : 'question', i % 2 ? { tool: 'Bash', input: { command: `make target-${i}` } } : { questions: [{ question: `Which way at ${i}?`, options: [{ label: 'left' }, { label: 'right' }] }] });
  for (let i = 0; i < 1000; i += 20) await Promise.all(Array.from({ length: 20 }, (_, k) => raise(i + k)));
  await hub.open(page);
  await expect(page.getByText('1000 waiting')).toBeVisible();
  const listed = await page.evaluate(() => performance.now());
  const stop = await watchFrames(page);
  await page.evaluate(async () => {
    const box = document.querySelector('.rows .box')!;
    for (let y = 0; y < box.scrollHeight; y += 350) {
      box.scrollTop = y;
      await new Promise(requestAnimationFrame);
    }
  });
  report(info, '1,000 open asks scrolled', await stop());
  figure(info, '1,000 open asks, from opening the page to listed', `${listed.toFixed(0)} ms`);
});

async function stream(bot: Agent, lines: number): Promise<void> {
  const each = 25;
  for (let from = 0; from < lines; from += each) {
    const events: Body[] = [];
    for (let i = from; i < from + each; i += 1) {
      const breaks = i % 8 === 7 ? '\n\n' : '\n';
      events.push({ type: 'text', id: 't1', delta: `Line ${i}: a **word**, some \`code\`, and what else is said.${breaks}` });
    }
    await bot.say(...events);
  }
}

test('a conversation of 10,000 lines', async ({ hub, page }, info) => {
  const bot = await hub.agent('bot', { kind: 'claude', reach: 'driven' });
  await hub.open(page, '#/agents/bot');
  await expect(page.getByText('No messages yet.')).toBeVisible();
  const stop = await watchFrames(page);
  const begun = Date.now();
  await stream(bot, 10_000);
  await expect(page.getByText('Line 9999:')).toBeVisible({ timeout: 60_000 });
  const took = (Date.now() - begun) / 1000;
  report(info, '10,000 lines streaming in', await stop());
  figure(info, '10,000 lines streaming in, at', `${(10_000 / took).toFixed(0)} lines/s`);
});
