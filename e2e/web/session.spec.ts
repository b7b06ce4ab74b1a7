import { createServer, type IncomingMessage, type Server } from 'node:http';
import { expect, test } from './support';

interface Heard {
  cookie: string;
  page: string;
  body: string;
}

/** Somebody else on the hub's port, who writes down what browsers send and tries to get more out of them. */
class Squatter {
  heard: Heard[] = [];
  #servers: Server[] = [];

  async listen(port: number): Promise<void> {
    const note = (request: IncomingMessage, body: string): void => {
      const offered = String(request.headers['sec-websocket-protocol'] ?? '').split('aye.page.')[1] ?? '';
      this.heard.push({ cookie: request.headers.cookie ?? '', page: String(request.headers['aye-page'] ?? offered), body });
    };
    for (const host of ['127.0.0.1', '::1']) {
      const server = createServer((request, reply) => {
        let body = '';
        request.on('data', (chunk: Buffer) => (body += chunk.toString()));
        request.on('end', () => {
          note(request, body);
          reply.setHeader('Content-Type', 'application/json');
          reply.setHeader('Connection', 'close');
          // As the hub would, so that a page that can be talked into sending more does.
          reply.end(JSON.stringify({ challenge: 'f'.repeat(112), token: 'e'.repeat(112), lasts: 600, name: 'ann', role: 'operator' }));
        });
      });
      server.on('upgrade', (request, socket) => {
        note(request, '');
        socket.destroy();
      });
      await new Promise<void>((resolve, reject) => {
        server.once('error', (error: NodeJS.ErrnoException) => (error.code === 'EADDRNOTAVAIL' ? resolve() : reject(error)));
        server.listen(port, host, resolve);
      });
      this.#servers.push(server);
    }
  }

  async leave(): Promise<void> {
    for (const server of this.#servers.filter((each) => each.listening)) {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
  }
}

test('what a squatter on the port of a hub that is down gets is worth nothing later', async ({ hub, page }) => {
  await hub.open(page);
  const port = Number(new URL(hub.address).port);
  await hub.kill();
  const squatter = new Squatter();
  await squatter.listen(port);
  // The page finds somebody there, shows its cookie, signs what it is given, and shows what it gets for that.
  await expect.poll(() => squatter.heard.some((each) => each.body.includes('signature'))).toBe(true);
  await expect.poll(() => squatter.heard.some((each) => each.page !== '')).toBe(true);
  await squatter.leave();
  await hub.run();

  const cookies = new Set(squatter.heard.map((each) => each.cookie).filter(Boolean));
  expect(cookies.size).toBeGreaterThan(0);
  const replay = async (path: string, headers: Record<string, string>, body?: string): Promise<number> => {
    const init = { method: body === undefined ? 'GET' : 'POST', headers: { Origin: hub.address, 'Content-Type': 'application/json', ...headers }, body };
    return (await fetch(hub.address + path, init)).status;
  };
  for (const cookie of cookies) {
    for (const { page: token, body } of squatter.heard) {
      // 429 once there were many: nothing, either way.
      expect([401, 429]).toContain(await replay('/api/asks', { Cookie: cookie, 'Aye-Page': token }));
      if (body.includes('signature')) expect(await replay('/api/session/token', { Cookie: cookie }, body)).toBe(409);
    }
  }
  // The person notices nothing but the pause.
  await expect(page.getByText('Connect your first agent')).toBeVisible();
  await expect.poll(() => page.evaluate(() => document.title)).not.toContain('lost');
});

test('the key of the session cannot be taken out, and nothing else is kept', async ({ hub, page }) => {
  await hub.open(page);
  expect(page.url()).toBe(`${hub.address}/`);
  const kept = await page.evaluate(async () => {
    const database = await new Promise<IDBDatabase>((resolve, reject) => {
      const request = indexedDB.open('aye');
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(request.error);
    });
    const all = await new Promise<CryptoKey[]>((resolve) => {
      const request = database.transaction('session').objectStore('session').getAll();
      request.onsuccess = () => resolve(request.result as CryptoKey[]);
    });
    const tries = await Promise.all(
      all.flatMap((key) => (['pkcs8', 'jwk'] as const).map((form) => crypto.subtle.exportKey(form, key).then(() => 'out', () => 'kept'))),
    );
    return { tries, types: all.map((key) => `${key.type} ${key.extractable}`), texts: { ...localStorage, ...sessionStorage } };
  });
  expect(kept.types).toEqual(['private false']);
  expect(kept.tries).toEqual(['kept', 'kept']);
  expect(JSON.stringify(kept.texts)).not.toMatch(/[0-9a-f]{64}/);
  // The cookie alone is what another port of this machine would be sent.
  expect(await page.evaluate(async () => (await fetch('/api/asks')).status)).toBe(401);
  await page.reload();
  await expect(page.getByText('Connect your first agent')).toBeVisible();
});

test('an open page shows its socket a new token and keeps it', async ({ hub, page }) => {
  await page.clock.install();
  const frames: string[] = [];
  const answers: string[] = [];
  let closed = 0;
  page.on('websocket', (socket) => {
    socket.on('framesent', (frame) => frames.push(String(frame.payload)));
    socket.on('framereceived', (frame) => answers.push(String(frame.payload)));
    socket.on('close', () => (closed += 1));
  });
  await hub.open(page);
  await page.clock.fastForward('05:00');
  await expect.poll(() => frames.some((frame) => frame.includes('"token"'))).toBe(true);
  await expect.poll(() => answers.some((frame) => /"type":"result".*"status":200/.test(frame))).toBe(true);
  expect(closed).toBe(0);
});

test('a link that was used already says so, and leaves who is signed in signed in', async ({ hub, page, context }) => {
  const link = await hub.signInLink();
  await page.goto(link);
  await expect(page.getByRole('navigation', { name: 'Main' })).toBeVisible();
  await expect(page).toHaveURL(`${hub.address}/`);
  const second = await context.newPage();
  await second.goto(link);
  await expect(second.getByText('This sign-in link has been used')).toBeVisible();
  expect(second.url()).toBe(`${hub.address}/`);
  await second.reload();
  await expect(second.getByRole('navigation', { name: 'Main' })).toBeVisible();
});

test('a browser that an earlier version signed in is told kindly to sign in once more', async ({ hub, page }) => {
  await page.goto(hub.address);
  await page.evaluate(() => localStorage.setItem('aye.page', 'a'.repeat(64)));
  await page.reload();
  await expect(page.getByText('Please sign in once more')).toBeVisible();
  await hub.open(page);
  expect(await page.evaluate(() => localStorage.getItem('aye.page'))).toBeNull();
});
