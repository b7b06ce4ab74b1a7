/** Differences between texts, as rows side by side or below each other. */

import type { Span } from './segments';
import type { Hunk } from './types';

export interface Side {
  /** None where nobody knows where in the file it is. */
  number: number | null;
  text: string;
  /** Whether the file ends with this line, without a line break. */
  unended?: true;
}
export interface Row {
  kind: 'same' | 'changed' | 'removed' | 'added' | 'gap';
  old: Side | null;
  new: Side | null;
}

/** The rows of a diff's hunks: what was removed is beside what was added in its place. */
export function rowsOf(hunks: Hunk[]): Row[] {
  const rows: Row[] = [];
  for (const [i, hunk] of hunks.entries()) {
    if (i > 0) rows.push({ kind: 'gap', old: null, new: null });
    let [before, after] = [0, 0];
    const old = (text: string): Side => ({ number: hunk.old_start ? hunk.old_start + before++ : null, text });
    const come = (text: string): Side => ({ number: hunk.new_start ? hunk.new_start + after++ : null, text });
    let removed: Side[] = [];
    let added: Side[] = [];
    let last: Side[] = [];
    const settle = (): void => {
      for (let k = 0; k < Math.max(removed.length, added.length); k += 1) {
        const [gone, here] = [removed[k] ?? null, added[k] ?? null];
        rows.push({ kind: gone && here ? 'changed' : gone ? 'removed' : 'added', old: gone, new: here });
      }
      removed = [];
      added = [];
    };
    for (const line of hunk.lines) {
      const text = line.slice(1);
      if (line.startsWith('\\')) {
        for (const side of last) side.unended = true;
      } else if (line.startsWith('-')) {
        // A removal after an addition gets a row of its own.
        if (added.length) settle();
        removed.push(...(last = [old(text)]));
      } else if (line.startsWith('+')) {
        added.push(...(last = [come(text)]));
      } else {
        settle();
        const both = { kind: 'same' as const, old: old(text), new: come(text) };
        rows.push(both);
        last = [both.old, both.new];
      }
    }
    settle();
  }
  return rows;
}

export interface Line {
  kind: 'same' | 'removed' | 'added' | 'gap';
  side: Side | null;
  /** The line in its place on the other side, for comparing them word by word. */
  other: string | null;
}

/** The same rows as lines below each other: what goes, then what comes. */
export function linesOf(rows: Row[]): Line[] {
  const out: Line[] = [];
  let coming: Line[] = [];
  const settle = (): void => {
    out.push(...coming);
    coming = [];
  };
  for (const row of rows) {
    if (row.kind === 'gap' || row.kind === 'same') {
      settle();
      out.push({ kind: row.kind, side: row.new, other: null });
      continue;
    }
    if (row.old) out.push({ kind: 'removed', side: row.old, other: row.new?.text ?? null });
    if (row.new) coming.push({ kind: 'added', side: row.new, other: row.old?.text ?? null });
  }
  settle();
  return out;
}

const LONGEST_COMPARED = 600;

/** The parts of a line that the line in its place does not have; none where little is the same. */
export function wordsChanged(text: string, other: string | null): Span[] {
  if (other === null || text.length > LONGEST_COMPARED || other.length > LONGEST_COMPARED) return [];
  const words = (line: string): string[] => line.match(/[\p{L}\p{N}_]+|\s+|[^\p{L}\p{N}_\s]/gu) ?? [];
  const spans: Span[] = [];
  let [at, same] = [0, 0];
  for (const step of middle(words(other), words(text))) {
    const word = step.slice(1);
    if (step.startsWith('-')) continue;
    const last = spans.at(-1);
    if (step.startsWith(' ')) same += word.trim().length;
    else if (last?.to === at) last.to += word.length;
    else spans.push({ from: at, to: at + word.length, look: 'changed' });
    at += word.length;
  }
  return same * 3 < text.trim().length ? [] : spans;
}

/** Beyond this, lines are not matched with each other: all of the old goes, all of the new comes. */
const MOST_PAIRS = 4_000_000;

/** One hunk that turns one text into the other, whole. */
export function compare(before: string, after: string): Hunk {
  const [a, b] = [before.split('\n'), after.split('\n')];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) {
    end += 1;
  }
  const [x, y] = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
  const same = (lines: string[]): string[] => lines.map((line) => ` ${line}`);
  const lines = [...same(a.slice(0, start)), ...middle(x, y), ...same(end ? a.slice(-end) : [])];
  return { old_start: 1, new_start: 1, lines };
}

function middle(x: string[], y: string[]): string[] {
  const out: string[] = [];
  if (x.length * y.length > MOST_PAIRS) {
    return [...x.map((line) => `-${line}`), ...y.map((line) => `+${line}`)];
  }
  // The longest common subsequence, from the end.
  const width = y.length + 1;
  const longest = new Uint32Array((x.length + 1) * width);
  const at = (i: number, j: number): number => longest[i * width + j] ?? 0;
  for (let i = x.length - 1; i >= 0; i -= 1) {
    for (let j = y.length - 1; j >= 0; j -= 1) {
      longest[i * width + j] = x[i] === y[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  let [i, j] = [0, 0];
  while (i < x.length || j < y.length) {
    if (i < x.length && j < y.length && x[i] === y[j]) {
      out.push(` ${x[i]}`);
      i += 1;
      j += 1;
    } else if (i < x.length && (j >= y.length || at(i + 1, j) >= at(i, j + 1))) {
      out.push(`-${x[i++]}`);
    } else {
      out.push(`+${y[j++]}`);
    }
  }
  return out;
}
