/**
 * A conversation as it comes, in pieces small enough to be drawn one by one. Text that streams is read block by
 * block: what is before a blank line is final and is never read again, so a long answer costs no more per
 * word than a short one.
 */

import { after, characters } from './characters';
import { markdown, type Block } from './markdown';
import type { AgentEvent, Json, TextPiece } from './types';

export interface Tool {
  id: string;
  name: string;
  input: Json;
  subAgent: string;
  result: { text: string; failed: boolean; leftOut: number; duration: number | null; images: string[] } | null;
}

export type Piece =
  | { key: string; is: 'prompt'; text: string }
  | { key: string; is: 'words'; block: Block }
  | { key: string; is: 'tail'; text: string }
  | { key: string; is: 'tool'; tool: Tool }
  | { key: string; is: 'turn'; error: boolean; cost: number | null; duration: number | null; tokens: { input: number; output: number } | null }
  | { key: string; is: 'trouble'; text: string }
  | { key: string; is: 'refused'; tool: string; input: Json; reason: string; subAgent: string }
  | { key: string; is: 'ended'; code: number | null };

/** A paragraph that long is cut at a line: nobody can see all of it at once anyway. */
const LONGEST_TAIL = 4_000;
const FENCE = /^ {0,3}(`{3,}|~{3,})/;

interface Words {
  id: string;
  /** All of it so far, to be compared with the whole that comes at the end. */
  text: string;
  /** How many that are: what a piece is counted in. */
  characters: number;
  tail: string;
  first: number;
  blocks: number;
}

const text = (value: Json | undefined): string => (typeof value === 'string' ? value : '');
const number = (value: Json | undefined): number | null => (typeof value === 'number' ? value : null);

export class Conversation {
  pieces: Piece[] = [];
  seq = 0;
  /** When the agent last spoke a text that has not settled yet. */
  speakingSince: number | null = null;
  #words: Words | null = null;
  /** The last text that is complete: pieces of it may still be on their way. */
  #complete = '';
  /** What the turns before have cost; unknown where the conversation goes further back than it is shown. */
  #spent: number | null;
  #tools = new Map<string, { at: number; tool: Tool }>();

  constructor(isWhole = true) {
    this.#spent = isWhole ? 0 : null;
  }

  take(seq: number, event: AgentEvent, now: number): void {
    if (seq <= this.seq) return;
    this.seq = seq;
    switch (event.type) {
      case 'prompt':
        this.#settle();
        this.pieces.push({ key: `p${seq}`, is: 'prompt', text: text(event['text']) });
        break;
      case 'text':
        this.#speak(seq, event, now);
        break;
      case 'tool':
        this.#begin(seq, event);
        break;
      case 'tool_result':
        this.#finish(event);
        break;
      case 'turn': {
        this.#settle();
        const [total, duration] = [number(event['cost']), number(event['duration_ms'])];
        // Agents tell what all of it has cost so far.
        const cost = total === null || this.#spent === null ? null : Math.max(0, total - this.#spent);
        this.#spent = total ?? this.#spent;
        this.pieces.push({ key: `r${seq}`, is: 'turn', error: event['error'] === true, cost, duration, tokens: tokensOf(event['tokens']) });
        break;
      }
      case 'trouble':
        this.#insert({ key: `x${seq}`, is: 'trouble', text: text(event['text']) });
        break;
      case 'refused_itself':
        this.#insert({
          key: `d${seq}`,
          is: 'refused',
          tool: text(event['name']),
          input: event['input'] ?? null,
          reason: text(event['reason']),
          subAgent: text(event['sub_agent']),
        });
        break;
      case 'ended':
        this.#settle();
        this.pieces.push({ key: `e${seq}`, is: 'ended', code: number(event['code']) });
        break;
    }
  }

  /** The position of the piece of a tool call. */
  toolAt(id: string): number | undefined {
    return this.#tools.get(id)?.at;
  }

  /** What was added to the text that streams. What it does not join on to comes again with the text so far. */
  add(piece: TextPiece, now: number): void {
    if (piece.id === this.#complete) return;
    const words = this.#begun(piece.id);
    if (piece.from > words.characters) return;
    const fresh = after(piece.text, words.characters - piece.from);
    if (fresh) this.#extend(words, fresh, now);
  }

  #begun(id: string): Words {
    if (this.#words && this.#words.id !== id) this.#settle();
    return (this.#words ??= { id, text: '', characters: 0, tail: '', first: this.pieces.length, blocks: 0 });
  }

  #extend(words: Words, added: string, now: number): void {
    words.text += added;
    words.characters += characters(added);
    words.tail += added;
    this.speakingSince = now;
    this.#advance(words);
  }

  #speak(seq: number, event: AgentEvent, now: number): void {
    const words = this.#begun(text(event['id']) || `s${seq}`);
    const whole = text(event['text']);
    const partial = event['partial'] === true;
    // Pieces may have come faster than what was written of them.
    if (partial && words.text.startsWith(whole)) return;
    if (partial && whole.startsWith(words.text)) return this.#extend(words, whole.slice(words.text.length), now);
    if (words.text !== whole) {
      this.pieces.length = words.first;
      [words.text, words.characters, words.tail, words.blocks] = ['', 0, '', 0];
      this.#extend(words, whole, now);
    }
    if (partial) return;
    this.#complete = words.id;
    this.#settle();
  }

  /** A text that streams goes on below what happens meanwhile. */
  #insert(piece: Piece): number {
    const at = this.#words?.first ?? this.pieces.length;
    this.pieces.splice(at, 0, piece);
    if (this.#words) this.#words.first += 1;
    return at;
  }

  /** Makes pieces of what is final, and leaves the rest to be continued. */
  #advance(words: Words): void {
    this.#dropTail();
    const cut = lastBoundary(words.tail);
    if (cut > 0) {
      this.#push(words, words.tail.slice(0, cut));
      words.tail = words.tail.slice(cut);
    } else if (words.tail.length > LONGEST_TAIL) {
      const line = words.tail.lastIndexOf('\n');
      const at = line > 0 ? line + 1 : words.tail.length;
      const head = words.tail.slice(0, at);
      const fence = openFence(head);
      this.#push(words, head);
      words.tail = (fence ? `${fence}\n` : '') + words.tail.slice(at);
    }
    if (words.tail) this.pieces.push({ key: `t${words.id}`, is: 'tail', text: words.tail });
  }

  #push(words: Words, part: string): void {
    for (const block of markdown(part).flatMap(inParts)) {
      this.pieces.push({ key: `w${words.id}.${words.blocks++}`, is: 'words', block });
    }
  }

  #dropTail(): void {
    if (this.pieces.at(-1)?.is === 'tail') this.pieces.pop();
  }

  #settle(): void {
    const words = this.#words;
    if (!words) return;
    this.#dropTail();
    this.#push(words, words.tail);
    this.#words = null;
    this.speakingSince = null;
  }

  #begin(seq: number, event: AgentEvent): void {
    const id = text(event['id']) || `u${seq}`;
    if (this.#tools.has(id)) return;
    const tool = {
      id,
      name: text(event['name']),
      input: event['input'] ?? null,
      subAgent: text(event['sub_agent']),
      result: null,
    };
    this.#tools.set(id, { at: this.#insert({ key: `u${id}`, is: 'tool', tool }), tool });
  }

  #finish(event: AgentEvent): void {
    const found = this.#tools.get(text(event['id']));
    if (!found) return;
    const result = {
      text: text(event['text']),
      failed: event['failed'] === true,
      leftOut: number(event['left_out']) ?? 0,
      duration: number(event['duration_ms']),
      images: imagesOf(event['images']),
    };
    // A new object, so that what shows it notices.
    found.tool = { ...found.tool, subAgent: found.tool.subAgent || text(event['sub_agent']), result };
    this.pieces[found.at] = { key: `u${found.tool.id}`, is: 'tool', tool: found.tool };
  }
}

/** Pictures as addresses that hold them; only kinds that can do nothing but be looked at. */
function imagesOf(value: Json | undefined): string[] {
  if (!Array.isArray(value)) return [];
  return value.flatMap((image) => {
    if (image === null || typeof image !== 'object' || Array.isArray(image)) return [];
    const [type, data] = [text(image['media_type']), text(image['data'])];
    return /^image\/(png|jpeg|gif|webp)$/.test(type) && /^[A-Za-z0-9+/=]+$/.test(data) ? [`data:${type};base64,${data}`] : [];
  });
}

/** Tokens that were read for the first time and tokens from a cache are both input. */
function tokensOf(value: Json | undefined): { input: number; output: number } | null {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return null;
  const count = (name: string): number => number(value[name]) ?? 0;
  const input = count('input') + count('cache_read') + count('cache_written');
  return input || count('output') ? { input, output: count('output') } : null;
}

/** The place after the last blank line outside of code. */
function lastBoundary(tail: string): number {
  let [at, boundary, fence] = [0, 0, ''];
  while (at < tail.length) {
    const end = tail.indexOf('\n', at);
    if (end < 0) break;
    const line = tail.slice(at, end);
    const mark = FENCE.exec(line)?.[1];
    if (mark && (!fence || line.trim().startsWith(fence))) fence = fence ? '' : mark;
    if (!fence && line.trim() === '') boundary = end + 1;
    at = end + 1;
  }
  return boundary;
}

/** The line that opened the code in which a text ends, if it does. */
function openFence(head: string): string {
  let open = '';
  for (const line of head.split('\n')) {
    const mark = FENCE.exec(line)?.[1];
    if (mark) open = open ? '' : line;
  }
  return open;
}

const MOST_LINES = 60;

/** Long code and long lists are drawn in parts. */
function inParts(block: Block): Block[] {
  if (block.is === 'code') {
    const lines = block.text.split('\n');
    if (lines.length <= MOST_LINES) return [block];
    return chunks(lines, MOST_LINES).map((part) => ({ ...block, text: part.join('\n') }));
  }
  if (block.is === 'list' && block.items.length > MOST_LINES) {
    return chunks(block.items, MOST_LINES).map((items) => ({ ...block, items }));
  }
  return [block];
}

function chunks<T>(all: T[], size: number): T[][] {
  const out: T[][] = [];
  for (let i = 0; i < all.length; i += size) out.push(all.slice(i, i + size));
  return out;
}
