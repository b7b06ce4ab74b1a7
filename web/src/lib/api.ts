/** Calls to the hub. A call that fails says so; nothing is ever taken for done that the hub did not confirm. */

import { SignedOut, forgetToken, pageToken } from './session';
import type { Ask } from './types';

export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly ask: Ask | null = null,
    readonly field: string | null = null,
    /** Whether it takes a passkey. */
    readonly proof = false,
  ) {
    super(message);
  }
}

const PATIENCE = 20_000;

export async function call<T>(method: string, path: string, body?: unknown): Promise<T> {
  const reply = await send(method, path, body);
  const text = await reply.text();
  return (text ? JSON.parse(text) : null) as T;
}

async function send(method: string, path: string, body?: unknown): Promise<Response> {
  let reply = await sendOnce(method, path, body);
  if (reply.status === 401) {
    // The hub knows only tokens that it gave out since it was started.
    forgetToken();
    reply = await sendOnce(method, path, body);
  }
  if (reply.ok) return reply;
  const said = await reply.json().catch(() => ({}));
  const proof = said.proof === 'passkey';
  throw new Refused(reply.status, said.error ?? `The hub said ${reply.status}.`, said.ask ?? null, said.field ?? null, proof);
}

async function sendOnce(method: string, path: string, body?: unknown): Promise<Response> {
  try {
    const headers: Record<string, string> = { 'Aye-Page': await pageToken() };
    const init: RequestInit = { method, headers, signal: AbortSignal.timeout(PATIENCE), cache: 'no-store' };
    if (body !== undefined) {
      headers['Content-Type'] = 'application/json';
      init.body = JSON.stringify(body);
    }
    return await fetch(path, init);
  } catch (error) {
    if (error instanceof SignedOut) throw new Refused(401, error.message);
    throw new Refused(0, 'The hub cannot be reached, so this may not have been sent. Try again.');
  }
}

export const get = <T>(path: string): Promise<T> => call<T>('GET', path);
export const post = <T>(path: string, body: unknown = {}): Promise<T> => call<T>('POST', path, body);
export const remove = (path: string): Promise<null> => call<null>('DELETE', path);

/** Fetched rather than linked to, because a link cannot carry the page's token. */
export async function download(path: string, name: string): Promise<void> {
  const reply = await send('GET', path);
  const url = URL.createObjectURL(await reply.blob());
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}

/** A name for one act of a person: sending it twice is not doing it twice. */
export function freshKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `web-${[...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}
