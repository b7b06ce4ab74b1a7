/**
 * This browser's session. Whatever a page sends may reach somebody else: a cookie goes to every port of this
 * machine, and while the hub is down another user can listen on its port. So the page keeps a key that nobody
 * can take out of the browser, signs what the hub gives it, and gets a token that is soon worth nothing. The
 * token is held in memory alone.
 */

export class SignedOut extends Error {}

const DATABASE = 'aye';
const STORE = 'session';
const CURVE = { name: 'ECDSA', namedCurve: 'P-256' };
const CODE = /^#([0-9a-f]{64})$/;
/** What a page of an earlier version kept. */
const EARLIER = 'aye.page';
const PATIENCE = 20_000;

let token: { text: string; until: number } | null = null;
let renewing: Promise<string> | null = null;
/** For a browser that keeps nothing, for as long as the page is open. */
let unkept: CryptoKey | null = null;

const hex = (bytes: ArrayBuffer): string =>
  [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, '0')).join('');

/** Signs in with the code of a sign-in link, if this page was opened by one. */
export async function signIn(): Promise<void> {
  const code = CODE.exec(location.hash)?.[1];
  if (location.pathname !== '/sign-in') return;
  // A browser that loads a link ahead of its person must not use it up.
  if ('prerendering' in document && document.prerendering) {
    await new Promise((shown) => document.addEventListener('prerenderingchange', shown, { once: true }));
  }
  history.replaceState(null, '', '/');
  if (!code) return;
  if (!crypto.subtle) {
    throw new SignedOut('Signing in works only over https, or on the machine where the hub runs.');
  }
  const key = await crypto.subtle.generateKey(CURVE, false, ['sign']);
  const public_key = hex(await crypto.subtle.exportKey('raw', key.publicKey));
  await ask('/api/sign-in', { code, public_key });
  await keep(key.privateKey);
  localStorage.removeItem(EARLIER);
  token = null;
}

/** The token for the next call. A new one is signed for when there is none, or when it is about to end. */
export async function pageToken(patience = PATIENCE): Promise<string> {
  if (token && Date.now() < token.until) return token.text;
  renewing ??= renew(patience).finally(() => (renewing = null));
  return renewing;
}

/** The hub may have gone, and somebody else may listen in its place: the next call signs again. */
export function forgetToken(): void {
  token = null;
}

async function renew(patience: number): Promise<string> {
  const key = await kept();
  if (!key) throw new SignedOut(why());
  for (let attempt = 0; ; attempt += 1) {
    const { challenge } = await ask<{ challenge: string }>('/api/session/challenge', {}, patience);
    const message = new TextEncoder().encode(`aye page token\n${location.origin}\n${challenge}`);
    const signature = hex(await crypto.subtle.sign({ name: 'ECDSA', hash: 'SHA-256' }, key, message));
    try {
      const given = await ask<{ token: string; lasts: number }>('/api/session/token', { challenge, signature }, patience);
      // At half its time, so that it never ends on the way.
      token = { text: given.token, until: Date.now() + given.lasts * 500 };
      return given.token;
    } catch (error) {
      if (!(error instanceof Stale) || attempt > 0) throw error;
    }
  }
}

/** The challenge came from a hub that was restarted since. */
class Stale extends Error {}

async function ask<T>(path: string, body: unknown, patience = PATIENCE): Promise<T> {
  const reply = await fetch(path, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(patience),
    cache: 'no-store',
  });
  const text = await reply.text();
  if (reply.ok) return (text ? JSON.parse(text) : null) as T;
  if (reply.status === 409) throw new Stale();
  if (reply.status === 410) throw new SignedOut('This sign-in link has been used, or is older than 15 minutes.');
  if (reply.status === 401) throw new SignedOut(why());
  throw new Error(`The hub said ${reply.status}.`);
}

const why = (): string =>
  localStorage.getItem(EARLIER) === null
    ? ''
    : 'aye has been updated and protects your session better now. Please sign in once more.';

function open(): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(DATABASE, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

function run<T>(mode: IDBTransactionMode, act: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  return open().then(
    (database) =>
      new Promise((resolve, reject) => {
        const transaction = database.transaction(STORE, mode);
        const request = act(transaction.objectStore(STORE));
        transaction.oncomplete = () => resolve(request.result);
        transaction.onabort = transaction.onerror = () => reject(transaction.error);
      }).finally(() => database.close()) as Promise<T>,
  );
}

async function keep(key: CryptoKey): Promise<void> {
  unkept = key;
  try {
    await run('readwrite', (store) => store.put(key, 'key'));
    unkept = null;
  } catch {
    // A browser that keeps nothing is signed in until the page is closed.
  }
}

/** Read each time: another tab may have signed in again. */
async function kept(): Promise<CryptoKey | null> {
  if (unkept) return unkept;
  try {
    return (await run<CryptoKey | undefined>('readonly', (store) => store.get('key'))) ?? null;
  } catch {
    return null;
  }
}
