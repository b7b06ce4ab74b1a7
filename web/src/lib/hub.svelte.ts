/** The hub as this page knows it: one socket, everything in order, and no doubt about whether it is there. */

import { Refused, freshKey, get, post } from './api';
import { nameBrowser } from './browser';
import { dropDraft } from './drafts';
import { proven } from './passkey';
import { called, names } from './names';
import { patience, pause } from './retry';
import { SignedOut, forgetToken, pageToken, signIn } from './session';
import type { Agent, AgentEvent, Answer, Ask, Message, Notice, TextPiece } from './types';
import { allows } from './words';

export type Connection = 'connecting' | 'connected' | 'lost' | 'signed-out';

/** Asks that have ended stay on show for whoever has them open; older ones are in the history. */
const MOST_ENDED = 300;
/** Sockets can die without a word; after this much silence the hub is asked whether it is there. */
const SILENCE = 2_000;
/** A tab that nobody looks at asks less often. */
const SILENCE_HIDDEN = 30_000;
/** A socket is shown a new token well before the hub wants one. */
const RENEW = 4 * 60_000;

/** So long may changes be taken in before a frame is drawn, in milliseconds. */
const LONGEST_WORK = 8;

/** Whoever shows a conversation. */
export interface Listener {
  event(seq: number, event: AgentEvent): void;
  piece(piece: TextPiece): void;
  /** Events may have been missed. */
  restart(): void;
}

class Hub {
  connection = $state<Connection>('connecting');
  /** Why this browser is not signed in, where there is more to say than that. */
  whySignedOut = $state('');
  /** Whether everything there is has arrived once. */
  loaded = $state(false);
  retryAt = $state(0);
  /** What the hub says is wrong with itself, while it can do nothing for anybody. */
  trouble = $state('');
  asks = $state.raw<ReadonlyMap<string, Ask>>(new Map());
  agents = $state.raw<ReadonlyMap<string, Agent>>(new Map());
  notices = $state.raw<Notice[]>([]);
  /** Answers that their agents' transcripts contradict, until somebody has marked them as seen. */
  alarms = $state.raw<ReadonlyMap<string, Ask>>(new Map());
  me = $state.raw<{ name: string; role: string } | null>(null);

  #names = $derived(names([...this.agents.values()].filter((agent) => agent.state !== 'ended')));
  /** Oldest first. */
  open = $derived([...this.asks.values()].filter((ask) => ask.state === 'open'));
  live = $derived(this.connection === 'connected' && !this.trouble);
  mayAnswer = $derived(this.live && this.me?.role !== 'viewer');

  /** Told of each ask that is new, and of those that are there at the start. */
  onNew: (asks: Ask[]) => void = () => {};

  #socket: WebSocket | null = null;
  #connecting = false;
  #seq: number | null = null;
  /** How often it was tried to reach the hub since it was last there, and since when it is not. */
  #tries = 0;
  #lostAt = 0;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #heard = 0;
  #probing = false;
  #named = false;
  #queue: Message[] = [];
  #due = false;
  #listeners = new Map<string, Set<Listener>>();

  start(): void {
    void this.#begin();
    addEventListener('online', () => this.retryNow());
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden) this.retryNow();
    });
    addEventListener('offline', () => void this.#probe(0));
    setInterval(() => void this.#probe(document.hidden ? SILENCE_HIDDEN : SILENCE), SILENCE / 2);
    setInterval(() => void this.#renew(), RENEW);
  }

  async #begin(): Promise<void> {
    try {
      await signIn();
    } catch (error) {
      const reached = error instanceof SignedOut;
      this.#signOut(reached ? error.message : 'The hub could not be reached. Open the sign-in link again.');
      return;
    }
    await this.#connect();
  }

  #signOut(why: string): void {
    this.whySignedOut = why;
    this.connection = 'signed-out';
  }

  retryNow(): void {
    if (this.connection !== 'lost') return;
    clearTimeout(this.#retry);
    void this.#connect();
  }

  /** The number of the last change that this page knows. */
  get seq(): number {
    return this.#seq ?? 0;
  }

  /** Follows the conversation of one agent. */
  follow(agent: string, listener: Listener): () => void {
    const listeners = this.#listeners.get(agent) ?? new Set();
    this.#listeners.set(agent, listeners.add(listener));
    return () => listeners.delete(listener);
  }

  agentTitle(id: string): string {
    const agent = this.agents.get(id);
    return this.#names.get(id) ?? (agent ? called(agent) : id);
  }

  /** Makes asks known that came by another way than the socket; what the socket said is newer. */
  learn(asks: Ask[]): void {
    const known = new Map(this.asks);
    for (const ask of asks) if (!known.has(ask.id)) known.set(ask.id, ask);
    this.asks = known;
  }

  /** Whether the answer was used: somebody else may have been first. */
  async answer(ask: Ask, answer: Answer, key: string): Promise<boolean> {
    if (!this.live) throw new Refused(0, 'You are offline, so nothing was sent.');
    try {
      const path = `/api/asks/${encodeURIComponent(ask.id)}/answer`;
      const send = (more: object): Promise<Ask> => post<Ask>(path, { answer, digest: ask.digest, key, ...more });
      const wanted = { purpose: 'allow', ask: ask.id, digest: ask.digest, answer } as const;
      const takesPasskey = ask.proof === 'passkey' && allows(ask, answer);
      this.#put(await proven(wanted, takesPasskey, send));
      dropDraft(ask);
      return true;
    } catch (error) {
      if (error instanceof Refused && error.status === 503) void this.#probe(0);
      if (!(error instanceof Refused && error.ask && error.ask.state !== 'open')) throw error;
      this.#put(error.ask);
      return false;
    }
  }

  async #connect(): Promise<void> {
    if (this.#connecting || this.#socket || this.connection === 'signed-out') return;
    this.#connecting = true;
    try {
      if (this.connection !== 'lost') this.connection = 'connecting';
      this.#follow(await pageToken(patience(this.#tries)));
    } catch (error) {
      if (error instanceof SignedOut) this.#signOut(error.message);
      else this.#retryLater();
    } finally {
      this.#connecting = false;
    }
  }

  #follow(token: string): void {
    const query = this.#seq === null ? '' : `?after=${this.#seq}`;
    const scheme = location.protocol === 'https:' ? 'wss:' : 'ws:';
    const socket = new WebSocket(`${scheme}//${location.host}/api/ws${query}`, ['aye', `aye.page.${token}`]);
    this.#socket = socket;
    let opened = false;
    const late = setTimeout(() => socket.close(), patience(this.#tries));
    socket.onopen = () => {
      clearTimeout(late);
      opened = true;
      this.#heard = Date.now();
      this.#tries = 0;
      this.connection = 'connected';
      void this.#whoAmI();
    };
    socket.onmessage = (message) => {
      this.#heard = Date.now();
      this.#take(JSON.parse(message.data as string) as Message);
    };
    socket.onclose = () => {
      clearTimeout(late);
      if (this.#socket === socket) this.#lost(opened);
    };
  }

  #lost(opened: boolean): void {
    this.#socket = null;
    forgetToken();
    this.#retryLater();
    if (!opened) void this.#askWhy();
  }

  /** A socket that never opened may have been refused for good. */
  async #askWhy(): Promise<void> {
    try {
      await get('/api/me');
    } catch (error) {
      if (!(error instanceof Refused && error.status === 401)) return;
      clearTimeout(this.#retry);
      this.#signOut(error.message);
    }
  }

  #retryLater(): void {
    if (this.connection !== 'lost') this.#lostAt = Date.now();
    this.connection = 'lost';
    const wait = pause(this.#tries, Date.now() - this.#lostAt, Math.random());
    this.#tries += 1;
    this.retryAt = Date.now() + wait;
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => void this.#connect(), wait);
    void this.#askHealth().catch(() => (this.trouble = ''));
  }

  /** Throws if the hub is not there at all. */
  async #askHealth(): Promise<void> {
    const reply = await fetch('/api/health', { signal: AbortSignal.timeout(SILENCE), cache: 'no-store' });
    const said = reply.status === 503 ? await reply.json().catch(() => ({})) : {};
    this.trouble = typeof said.error === 'string' ? said.error : '';
  }

  async markSeen(id: string): Promise<void> {
    await post(`/api/asks/${encodeURIComponent(id)}/seen`);
    const left = new Map(this.alarms);
    left.delete(id);
    this.alarms = left;
  }

  async #loadAlarms(): Promise<void> {
    try {
      const { asks } = await get<{ asks: Ask[] }>('/api/alarms');
      this.alarms = new Map(asks.map((ask) => [ask.id, ask]));
    } catch {
      // It is asked again as soon as there is something new.
    }
  }

  async #whoAmI(): Promise<void> {
    void this.#loadAlarms();
    try {
      this.me = await get('/api/me');
      if (!this.#named && this.me?.role === 'operator') {
        this.#named = true;
        void nameBrowser();
      }
    } catch {
      // The socket says soon enough whether the hub is there.
    }
  }

  /** Without it the hub ends the socket after ten minutes; where this fails, that is how the page learns why. */
  async #renew(): Promise<void> {
    const socket = this.#socket;
    if (this.connection !== 'connected' || !socket) return;
    try {
      forgetToken();
      socket.send(JSON.stringify({ type: 'token', token: await pageToken() }));
    } catch {
      // The socket says soon enough whether the hub is there.
    }
  }

  async #probe(silence: number): Promise<void> {
    const socket = this.#socket;
    const heard = !this.trouble && Date.now() - this.#heard < silence;
    if (!socket || this.#probing || this.connection !== 'connected' || heard) return;
    this.#probing = true;
    try {
      await this.#askHealth();
      this.#heard = Date.now();
    } catch {
      socket.onclose = null;
      socket.close();
      if (this.#socket === socket) this.#lost(true);
    } finally {
      this.#probing = false;
    }
  }

  /** Changes that come close together are shown together: a frame is drawn once. */
  #take(message: Message): void {
    this.#queue.push(message);
    if (this.#queue.length === 1) this.#applySoon();
  }

  #applySoon(): void {
    if (this.#due) return;
    this.#due = true;
    const now = (): void => {
      clearTimeout(late);
      if (!this.#due) return;
      this.#due = false;
      this.#apply();
    };
    // Frames stop when a tab is hidden; what was queued before must not wait for the tab to be shown.
    const late = setTimeout(now, 200);
    if (document.hidden) queueMicrotask(now);
    else requestAnimationFrame(now);
  }

  #apply(): void {
    const begun = performance.now();
    let taken = 0;
    let asks: Map<string, Ask> | null = null;
    let agents: Map<string, Agent> | null = null;
    const fresh: Ask[] = [];
    for (const message of this.#queue) {
      // What does not fit into this frame comes in the next.
      if (!document.hidden && performance.now() - begun > LONGEST_WORK) break;
      taken += 1;
      if (message.type === 'snapshot') {
        this.#seq = message.seq;
        this.loaded = true;
        const before: ReadonlyMap<string, Ask> = asks ?? this.asks;
        asks = new Map(message.asks.map((ask) => [ask.id, ask]));
        for (const ask of message.asks) if (!before.has(ask.id)) fresh.push(ask);
        this.#rememberEnded(before, asks);
        agents = new Map(message.agents.map((agent) => [agent.id, agent]));
        this.notices = (message.notices ?? []).filter((notice) => notice.problem);
        for (const listeners of this.#listeners.values()) for (const listener of listeners) listener.restart();
        if (message.next) void this.#fetchRest(message.next);
        continue;
      }
      if (message.type === 'piece') {
        for (const listener of this.#listeners.get(message.agent) ?? []) listener.piece(message);
        continue;
      }
      if (message.seq === undefined || (this.#seq !== null && message.seq <= this.#seq)) continue;
      this.#seq = message.seq;
      if (message.type === 'ask') {
        asks ??= new Map(this.asks);
        if (!asks.has(message.ask.id) && message.ask.state === 'open') fresh.push(message.ask);
        asks.set(message.ask.id, message.ask);
        if (message.ask.receipt === 'disputed') void this.#loadAlarms();
      } else if (message.type === 'agent') {
        agents ??= new Map(this.agents);
        agents.set(message.agent.id, message.agent);
      } else if (message.type === 'event') {
        for (const listener of this.#listeners.get(message.agent) ?? []) listener.event(message.seq, message.event);
      } else if (message.type === 'notice') {
        if (message.notice.about === 'alarms') void this.#loadAlarms();
        const others = this.notices.filter((notice) => notice.about !== message.notice.about);
        this.notices = message.notice.problem ? [...others, message.notice] : others;
      }
    }
    this.#queue.splice(0, taken);
    if (this.#queue.length) this.#applySoon();
    if (asks) this.asks = trimmed(asks);
    if (agents) this.agents = agents;
    if (fresh.length) this.onNew(fresh);
  }

  /** More is open than one snapshot holds: the rest comes page by page. */
  async #fetchRest(first: string): Promise<void> {
    try {
      for (let after: string | undefined = first; after; ) {
        const page: { asks: Ask[]; next?: string } = await get(`/api/asks?state=open&after=${encodeURIComponent(after)}`);
        this.learn(page.asks);
        after = page.next;
      }
    } catch {
      // The socket notices soon that the hub is gone; then a new snapshot replaces everything.
    }
  }

  /** What was open before and is not in a snapshot has ended meanwhile: how, the hub is asked. */
  #rememberEnded(before: ReadonlyMap<string, Ask>, now: Map<string, Ask>): void {
    for (const ask of before.values()) {
      if (now.has(ask.id)) continue;
      if (ask.state !== 'open') now.set(ask.id, ask);
      else void get<Ask>(`/api/asks/${encodeURIComponent(ask.id)}`).then((found) => this.#put(found), () => {});
    }
  }

  #put(ask: Ask): void {
    const known = this.asks.get(ask.id);
    // A receipt that arrived on the socket meanwhile says more than the reply to our own call.
    if (known && known.state !== 'open' && known.receipt !== 'pending') return;
    this.asks = new Map(this.asks).set(ask.id, ask);
  }
}

function trimmed(asks: Map<string, Ask>): Map<string, Ask> {
  let ended = 0;
  for (const ask of asks.values()) if (ask.state !== 'open') ended += 1;
  for (const ask of asks.values()) {
    if (ended <= MOST_ENDED) break;
    if (ask.state === 'open') continue;
    asks.delete(ask.id);
    ended -= 1;
  }
  return asks;
}

export const hub = new Hub();

/** One act of answering: the same answer sent again keeps its name, so that it counts once. */
export class Sending {
  busy = $state(false);
  problem = $state('');
  /** What became of it: whether the answer counts, or came after somebody else's. */
  result = $state<'used' | 'late' | null>(null);
  #last: { text: string; key: string } | null = null;

  async send(ask: Ask, answer: Answer): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    this.problem = '';
    const text = JSON.stringify(answer);
    if (this.#last?.text !== text) this.#last = { text, key: freshKey() };
    try {
      this.result = (await hub.answer(ask, answer, this.#last.key)) ? 'used' : 'late';
      this.#last = null;
    } catch (error) {
      this.problem = error instanceof Error ? error.message : String(error);
    } finally {
      this.busy = false;
    }
  }
}
