/** A page behind a balancer, whose hub dies under it. */

import type { Page } from '@playwright/test';
import { pause, patience } from '../../web/src/lib/retry';
import { Balancer } from './balancer';
import { Postgres } from './postgres';
import { Hub, database, expect, outcome, press, ready, test as base, type Ask } from './support';

const test = base.extend<{ balancer: Balancer }>({
  balancer: async ({ hub }, use) => {
    const balancer = await Balancer.start(hub.address);
    hub.address = balancer.address;
    await use(balancer);
    await balancer.end();
  },
});

/** Opens the page on a question and types half an answer. */
async function halfAnswered(hub: Hub, page: Page): Promise<Ask> {
  const ask = await (await hub.agent('bot')).raise('question', database);
  await hub.open(page);
  const card = await ready(page);
  await card.getByRole('textbox', { name: 'Your own answer' }).fill('A file per note');
  return ask;
}

/** A figure for whoever reads the report: how long something takes depends on the machine. */
function note(what: string, since: number): void {
  base.info().annotations.push({ type: what, description: `${Date.now() - since} ms` });
}

async function isLive(page: Page): Promise<void> {
  await expect(page.getByText('Offline, reconnecting…')).toHaveCount(0);
  await expect(page.getByRole('button', { name: 'Submit' })).toBeEnabled();
}

const pair = base.extend<{ second: Hub; balancer: Balancer }>({
  hub: async ({}, use) => {
    const server = await Postgres.start();
    const hub = await Hub.start(`[store]\nurl = "${server.url}"\n`);
    await use(hub);
    await hub.end();
    await server.end();
  },
  second: async ({ hub }, use) => use(await hub.beside()),
  balancer: async ({ hub, second }, use) => {
    const balancer = await Balancer.start(hub.address, second.address);
    hub.address = balancer.address;
    await use(balancer);
    await balancer.end();
  },
});

pair('a page whose hub is killed goes on at another that runs beside it, with its draft', async ({ hub, second, page, balancer }) => {
  const ask = await halfAnswered(hub, page);
  const follows: string[] = [];
  page.on('websocket', (socket) => follows.push(new URL(socket.url()).search));
  await hub.kill();
  const killed = Date.now();
  await expect.poll(() => follows.length, { intervals: [20] }).toBeGreaterThan(0);
  await isLive(page);
  note('the page went on after', killed);
  // No try found nobody.
  expect(balancer.turnedAway).toBe(0);
  // It goes on where it was, and is not sent everything again.
  expect(follows.at(-1)).toMatch(/^\?after=\d+$/);
  await press(page, 'Submit');
  await expect(outcome(page)).toContainText('A file per note');
  expect((await second.ask(ask.id))['answer']).toEqual({ answers: [{ text: 'A file per note' }] });
});

pair('what is asked and answered at one hub is seen on a page of the other at once', async ({ hub, second, page, balancer }) => {
  const bot = await second.agent('bot');
  await hub.open(page);
  const ask = await bot.raise('question', database);
  await ready(page);
  expect(await second.answer(ask, { answers: [{ text: 'A file per note' }] })).toBe(200);
  await expect(page.getByRole('button', { name: 'Submit' })).toHaveCount(0);
  expect(balancer.turnedAway).toBe(0);
});

test('a page whose hub is killed goes on at the next one that is started at its next try, with its draft', async ({ hub, page, balancer }) => {
  const ask = await halfAnswered(hub, page);
  const follows: string[] = [];
  page.on('websocket', (socket) => follows.push(new URL(socket.url()).search));
  await hub.kill();
  await expect(page.getByText('Offline, reconnecting…')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Submit' })).toBeDisabled();
  // It waits longer each time, and no longer than that.
  await expect.poll(() => balancer.turnedAway, { timeout: 30_000 }).toBeGreaterThan(6);
  const second = await hub.another();
  balancer.hubs = [...balancer.hubs, second.address];
  const [there, turnedAway] = [Date.now(), balancer.turnedAway];
  await isLive(page);
  note('the page went on after', there);
  // Its next try succeeded, if none was under way; how long it waits before that is tested below.
  expect(balancer.turnedAway).toBeLessThanOrEqual(turnedAway + 1);
  // It goes on where it was, and is not sent everything again.
  expect(follows.at(-1)).toMatch(/^\?after=\d+$/);
  await press(page, 'Submit');
  await expect(outcome(page)).toContainText('A file per note');
  expect((await second.ask(ask.id))['answer']).toEqual({ answers: [{ text: 'A file per note' }] });
});

test('a try that something swallows is given up for the next', async ({ hub, page, balancer }) => {
  await halfAnswered(hub, page);
  balancer.swallows = true;
  await hub.kill();
  await expect(page.getByText('Offline, reconnecting…')).toBeVisible();
  // The page has begun a try that leads nowhere.
  await new Promise<void>((resolve) => balancer.server.once('connection', () => resolve()));
  const second = await hub.another();
  balancer.hubs = [second.address];
  balancer.swallows = false;
  await isLive(page);
  await press(page, 'Submit');
  await expect(outcome(page)).toContainText('A file per note');
});

test('pages come back soon, and not all at once', () => {
  const chances = Array.from({ length: 500 }, (_, i) => i / 500);
  for (const tries of [0, 1, 2, 5, 30]) {
    const waits = chances.map((chance) => pause(tries, 30_000, chance));
    expect(Math.max(...waits)).toBeLessThan(1_200);
    // Of 500 pages, no more than a quarter come within any tenth of a second.
    for (let from = 0; from < 1_500; from += 50) {
      expect(waits.filter((wait) => wait >= from && wait < from + 100).length).toBeLessThanOrEqual(125);
    }
  }
  // A hub that stays away is asked less often, and a slow link is given more time.
  expect(pause(30, 3_600_000, 0.99)).toBeGreaterThan(7_000);
  expect([patience(0), patience(30)]).toEqual([2_000, 20_000]);
});
