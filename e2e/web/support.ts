/** A real hub in a home of its own, agents that speak its API, and browsers that are signed in. */

import { test as base, expect, type BrowserContext, type Locator, type Page } from '@playwright/test';
import { spawn, type ChildProcess } from 'node:child_process';
import { request } from 'node:http';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, extname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
export const root = join(here, '../..');
const target = process.env['CARGO_TARGET_DIR'] ?? join(root, 'target');
export const aye = process.env['AYE_TEST_BINARY'] ?? join(target, 'debug/aye');

export type Body = Record<string, unknown>;
export interface Ask extends Body {
  id: string;
  digest: string;
  state: string;
  receipt: string | null;
}

export class Hub {
  address = '';
  #child: ChildProcess | null = null;
  #port = '0';
  #others: Hub[] = [];

  private constructor(
    readonly home: string,
    readonly more: Record<string, string>,
  ) {}

  static async start(config = '', extra: string[] = [], more: Record<string, string> = {}): Promise<Hub> {
    const hub = new Hub(mkdtempSync(join(tmpdir(), 'aye-web-')), more);
    if (config) writeFileSync(join(hub.home, 'config.toml'), config);
    await hub.run(extra);
    return hub;
  }

  /** Another hub on the same home, at a port of its own; it ends with this one. */
  async another(): Promise<Hub> {
    const hub = new Hub(this.home, this.more);
    this.#others.push(hub);
    await hub.run();
    return hub;
  }

  /** Another hub on the same server's database, with a home of its own; it ends with this one. */
  async beside(): Promise<Hub> {
    const hub = new Hub(mkdtempSync(join(tmpdir(), 'aye-web-')), this.more);
    this.#others.push(hub);
    for (const name of ['config.toml', 'chain.key', 'agent.key', 'operator.token']) {
      copyFileSync(join(this.home, name), join(hub.home, name));
    }
    await hub.run();
    return hub;
  }

  /** Starts the process; a second time on the same port, so that open pages find it again. */
  async run(extra: string[] = []): Promise<void> {
    const child = spawn(aye, ['up', '--no-open', '--listen', `127.0.0.1:${this.#port}`, ...extra], {
      env: this.environment(this.more),
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#child = child;
    const lines = createInterface({ input: child.stdout! });
    this.address = await new Promise<string>((resolve, reject) => {
      lines.on('line', (line) => {
        const found = /^aye is listening on (http:\S+)/.exec(line);
        if (found) resolve(found[1]!);
      });
      child.once('exit', () => reject(new Error('the hub ended before it listened')));
    });
    this.#port = new URL(this.address).port;
  }

  environment(more: Record<string, string> = {}): NodeJS.ProcessEnv {
    const { AYE_URL: _url, AYE_TOKEN: _token, ...rest } = process.env;
    return { ...rest, AYE_HOME: this.home, AYE_LOG: 'error', USER: 'ann', ...more };
  }

  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = null;
    if (!child || child.exitCode !== null) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await ended;
  }

  async end(): Promise<void> {
    const all = [this, ...this.#others];
    await Promise.all(all.map((hub) => hub.kill()));
    for (const hub of all) rmSync(hub.home, { recursive: true, force: true });
  }

  operator(): string {
    return readFileSync(join(this.home, 'operator.token'), 'utf8').trim();
  }

  async call<T = Body>(method: string, path: string, token: string, body?: Body): Promise<{ status: number; body: T }> {
    const headers: Record<string, string> = { Authorization: `Bearer ${token}`, Connection: 'close' };
    if (body) headers['Content-Type'] = 'application/json';
    // The operator's own token counts on the Unix socket only.
    const { hostname, port } = new URL(this.address);
    const target = token === this.operator() ? { socketPath: join(this.home, 'aye.sock') } : { hostname, port };
    return await new Promise((resolve, reject) => {
      const call = request({ ...target, method, path, headers }, (reply) => {
        let text = '';
        reply.setEncoding('utf8');
        reply.on('data', (piece: string) => (text += piece));
        reply.on('end', () => resolve({ status: reply.statusCode ?? 0, body: (text ? JSON.parse(text) : null) as T }));
        reply.on('error', reject);
      });
      call.on('error', reject);
      call.end(body && JSON.stringify(body));
    });
  }

  async agent(id: string, profile: Body = {}): Promise<Agent> {
    const made = await this.call<{ token: string }>('POST', '/api/tokens', this.operator(), { role: 'agent', agent: id });
    const agent = new Agent(this, id, made.body.token);
    await agent.register({ kind: 'script', cwd: '/home/me/src/notes', title: id, ...profile });
    return agent;
  }

  async ask(id: string): Promise<Ask> {
    return (await this.call<Ask>('GET', `/api/asks/${id}`, this.operator())).body;
  }

  async answer(ask: Ask, answer: Body): Promise<number> {
    return (await this.call('POST', `/api/asks/${ask.id}/answer`, this.operator(), { answer, digest: ask.digest })).status;
  }

  async signInLink(): Promise<string> {
    const made = await this.call<{ url: string }>('POST', '/api/sign-in-links', this.operator(), {});
    // Under the address by which this test reaches the hub.
    const { pathname, hash } = new URL(made.body.url);
    return this.address + pathname + hash;
  }

  /** Opens the page in a browser that is signed in. */
  async open(page: Page, at = ''): Promise<void> {
    await page.goto(await this.signInLink());
    await expect(page.getByRole('navigation', { name: 'Main' })).toBeVisible();
    await expect(page).toHaveURL(`${this.address}/`);
    // Signed in, and everything there is has arrived.
    await expect(page.getByRole('main')).toHaveAttribute('aria-busy', 'false');
    if (at) await page.evaluate((hash) => void (location.hash = hash), at);
  }
}

/** A scripted agent, as far as the hub knows. */
export class Agent {
  #n = 0;
  constructor(
    readonly hub: Hub,
    readonly id: string,
    readonly token: string,
  ) {}

  async register(profile: Body): Promise<void> {
    const put = await this.hub.call('PUT', `/api/agents/${this.id}`, this.token, profile);
    expect(put.status).toBe(200);
  }

  async raise(kind: string, body: Body, more: Body = {}): Promise<Ask> {
    this.#n += 1;
    const raised = await this.hub.call<Ask>('POST', '/api/asks', this.token, {
      key: `k${this.#n}`,
      agent: this.id,
      kind,
      body,
      ...more,
    });
    expect(raised.status, JSON.stringify(raised.body)).toBe(201);
    return raised.body;
  }

  async receipt(ask: Ask, receipt: string): Promise<void> {
    const told = await this.hub.call('POST', `/api/asks/${ask.id}/receipt`, this.token, { receipt, evidence: 'the transcript' });
    expect(told.status).toBe(200);
  }

  async withdraw(ask: Ask, why: string): Promise<void> {
    const told = await this.hub.call('POST', `/api/asks/${ask.id}/withdraw`, this.token, { why });
    expect(told.status).toBe(200);
  }

  async say(...events: Body[]): Promise<void> {
    const told = await this.hub.call('POST', `/api/agents/${this.id}/events`, this.token, { events });
    expect(told.status).toBe(204);
  }

  /** What the adapter would be told to do next. */
  async commands(): Promise<Body[]> {
    const told = await this.hub.call<{ commands: { command: Body }[] }>('GET', `/api/agents/${this.id}/commands`, this.token);
    return told.body.commands.map((each) => each.command);
  }
}

export const database = {
  questions: [
    {
      question: 'Which database should the notes live in?',
      header: 'Storage',
      free_text: true,
      options: [
        { label: 'SQLite', description: 'One file, nothing to run' },
        { label: 'PostgreSQL', description: 'A server, for many writers' },
      ],
    },
  ],
};

export const command = (text: string, scopes: Body[] = [{ scope: 'once' }]): Body => ({
  tool: 'Bash',
  input: { command: text, description: 'runs it' },
  scopes,
});

interface Fixtures {
  hub: Hub;
  /** Everything the page complained about or reached for; empty at the end of every test. */
  strays: string[];
}

export function watch(context: BrowserContext, hub: Hub, strays: string[]): void {
  if (process.env['AYE_TEST_PAGE']) void servedFrom(process.env['AYE_TEST_PAGE'], context);
  const foreign = (address: string): boolean => {
    const url = new URL(address);
    return url.origin !== hub.address && !['data:', 'blob:', 'about:'].includes(url.protocol);
  };
  // What the policy stops never leaves; Chromium says so by this name.
  context.on('requestfailed', (request) => {
    const stopped = request.failure()?.errorText === 'csp';
    if (foreign(request.url()) && !stopped) strays.push(`a request to ${request.url()}`);
  });
  context.on('response', (response) => {
    if (foreign(response.url())) strays.push(`a reply from ${response.url()}`);
  });
  context.on('weberror', (error) => strays.push(`an error: ${error.error().message}`));
  context.on('console', (message) => {
    const expected = /WebSocket connection|Failed to load resource/.test(message.text());
    const inFrame = message.location().url.includes('/preview/') || /Blocked script execution/.test(message.text());
    if (message.type() === 'error' && !expected && !inFrame) strays.push(`the console: ${message.text()}`);
  });
}

/** Serves a page that vite built into a folder instead of the one in the program, which takes longer to build. */
async function servedFrom(folder: string, context: BrowserContext): Promise<void> {
  const kinds: Record<string, string> = { '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };
  await context.route(/^http:[^?]*\/assets\/[^/]*$/, async (route) => {
    const name = basename(new URL(route.request().url()).pathname);
    const files = readdirSync(join(folder, 'assets'));
    // The program's own page names the files of its own build.
    const file = files.find((each) => each === name) ?? files.find((each) => extname(each) === extname(name) && each.startsWith(name.split('-')[0]!));
    await route.fulfill({ contentType: kinds[extname(name)], path: join(folder, 'assets', file ?? name) });
  });
}

/** The card on show, once it takes presses: for a moment after it appears it takes none. */
export async function ready(page: Page, name: string | RegExp = /./): Promise<Locator> {
  // Each use of it looks again: the card of a moment ago is not the one that comes after it.
  const card = page.getByRole('article', { name }).and(page.locator('[data-armed]')).first();
  await expect(card).toBeVisible();
  return card;
}

/** Scrolls with the wheel, the pointer over the card, until it moves no further. */
export async function wheel(page: Page, by: number): Promise<void> {
  await (await ready(page)).hover({ position: { x: 5, y: 5 } }).catch(() => {});
  let before = '';
  await expect(async () => {
    await page.mouse.wheel(0, by);
    const now = await page.evaluate(() => new Promise<string>((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => resolve(String(document.querySelector('article')?.getBoundingClientRect().top))))));
    const moved = now !== before;
    before = now;
    expect(moved).toBe(false);
  }).toPass({ intervals: [0] });
}

/** Draws a finger up the screen, once. */
export async function swipe(page: Page): Promise<void> {
  const touch = await page.context().newCDPSession(page);
  const { width, height } = page.viewportSize()!;
  const at = (y: number) => ({ touchPoints: [{ x: width / 2, y: height * y }] });
  await touch.send('Input.dispatchTouchEvent', { type: 'touchStart', ...at(0.85) });
  for (let y = 0.8; y > 0.2; y -= 0.05) await touch.send('Input.dispatchTouchEvent', { type: 'touchMove', ...at(y) });
  await touch.send('Input.dispatchTouchEvent', { type: 'touchEnd', touchPoints: [] });
  await touch.detach();
}

/** Presses what decides, as a person does who has looked at it. */
export async function press(page: Page, name: string, card: string | RegExp = /./): Promise<void> {
  await (await ready(page, card)).getByRole('button', { name, exact: true }).click();
}

/** Pictures go into the documentation when somebody wants them renewed, and else where nobody commits them. */
export function pictures(): string {
  const folder = process.env['AYE_PICTURES'] ? join(root, 'docs/screenshots') : join(here, 'test-results/screenshots');
  mkdirSync(folder, { recursive: true });
  return folder;
}

export const outcome = (page: Page): Locator => page.locator('.outcome');

export const test = base.extend<Fixtures>({
  hub: async ({}, use) => {
    const hub = await Hub.start();
    await use(hub);
    await hub.end();
  },
  strays: [
    async ({ hub, context }, use) => {
      const strays: string[] = [];
      watch(context, hub, strays);
      await use(strays);
      expect(strays).toEqual([]);
    },
    { auto: true },
  ],
});

export { expect };
