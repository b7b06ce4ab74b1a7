/**
 * What a permission request asks for, in the pieces that its card shows. The hub makes the display. It is taken
 * only if the input can be read back from it; else the input itself is shown, field by field.
 */

import type { Display, Hunk, Json, PermissionAsk } from '../lib/types';

export type Piece =
  | { is: 'words'; text: string }
  | { is: 'command'; text: string }
  | { is: 'json'; text: string }
  | { is: 'diff'; file: string; hunks: Hunk[]; before: boolean }
  | { is: 'field'; name: string; text: string };

export interface Whole {
  pieces: Piece[];
  /** Whether what is shown is exactly what was asked. */
  exact: boolean;
}

type Fields = { [name: string]: Json };

export function whole({ body, display }: PermissionAsk): Whole {
  if (!display || !same(rebuild(display, body.tool), body.input)) {
    return { pieces: fields(body.input), exact: holdsExactly(body.input) };
  }
  if (display.kind === 'json') {
    // The hub's own text keeps what a browser cannot hold.
    const readable = Object.keys(body.input).length > 0 && holdsExactly(body.input);
    return { pieces: readable ? fields(body.input) : [{ is: 'json', text: display.text }], exact: true };
  }
  const exact = holdsExactly(display.rest);
  if (display.kind === 'diff') {
    const { file = '', hunks = [], before = false } = display;
    return { pieces: [{ is: 'diff', file, hunks, before }, ...fields(display.rest)], exact };
  }
  // The agent's own words about a command come before it, and are never taken for it.
  const { description, ...rest } = display.rest;
  const about = typeof description === 'string' ? [{ is: 'words' as const, text: description }] : [];
  return { pieces: [...about, { is: 'command', text: display.text }, ...fields(about.length ? rest : display.rest)], exact };
}

const fields = (input: Fields): Piece[] => Object.entries(input).map(([name, value]) => ({ is: 'field', name, text: asText(value) }));

/** The input that a display shows. */
export function rebuild(display: Display, tool: string): Json | undefined {
  if (display.kind === 'json') return parsed(display.text);
  if (display.kind === 'command') return { ...display.rest, command: display.text };
  const { file, hunks = [], rest } = display;
  if (file === undefined) return undefined;
  const [first, ...more] = hunks;
  if (tool === 'MultiEdit') {
    const { edits, ...others } = rest;
    const each = hunks.map((hunk, n) => ({ ...(Array.isArray(edits) ? (edits[n] as Fields) : {}), ...edit(hunk) }));
    return { ...others, file_path: file, edits: each };
  }
  if (!first || more.length) return undefined;
  if (tool === 'Write') return { ...rest, file_path: file, content: content(first.lines) };
  return tool === 'Edit' ? { ...rest, file_path: file, ...edit(first) } : undefined;
}

function edit(hunk: Hunk): Fields {
  const side = (sign: string): string => hunk.lines.filter((line) => line.startsWith(sign)).map((line) => line.slice(1)).join('\n');
  return { old_string: side('-'), new_string: side('+') };
}

function content(lines: string[]): string {
  let [text, ended] = ['', false];
  for (const line of lines) {
    if (/^[ +]/.test(line)) text += `${line.slice(1)}\n`;
    else if (line.startsWith('\\') && ended) text = text.slice(0, -1);
    ended = /^[ +]/.test(line);
  }
  return text;
}

/** A value as text from which it can be read again: a string is shown as it is unless it looks like something else. */
export function asText(value: Json): string {
  if (typeof value !== 'string') {
    const line = JSON.stringify(value);
    return line.length <= 60 ? line : JSON.stringify(value, null, 2);
  }
  return parsed(value) === undefined && value.trim() !== '' ? value : JSON.stringify(value);
}

export function fromText(text: string): Json {
  const value = parsed(text);
  return value === undefined ? text : value;
}

function parsed(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

export function same(a: Json | undefined, b: Json | undefined): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const [mine, other] = [Object.entries(a), b as Fields];
  return mine.length === Object.keys(other).length && mine.every(([name, value]) => Object.hasOwn(other, name) && same(value, other[name]));
}

/** Whether every number in it survived being read. */
export function holdsExactly(value: Json): boolean {
  if (typeof value === 'number') return !Number.isInteger(value) ? Number.isFinite(value) : Number.isSafeInteger(value) && !Object.is(value, -0);
  if (Array.isArray(value)) return value.every(holdsExactly);
  if (value !== null && typeof value === 'object') return Object.values(value).every(holdsExactly);
  return true;
}
