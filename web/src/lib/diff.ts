/** Differences between texts, as rows that stand side by side or below each other. */

import type { Hunk } from './types';

export interface Side {
  number: number;
  text: string;
}
export interface Row {
  kind: 'same' | 'changed' | 'removed' | 'added' | 'gap';
  old: Side | null;
  new: Side | null;
  /** What a gap says of the line above it. */
  note?: string;
}

/** The rows of a diff's hunks: what was removed stands beside what was added in its place. */
export function rowsOf(hunks: Hunk[]): Row[] {
  const rows: Row[] = [];
  for (const [i, hunk] of hunks.entries()) {
    if (i > 0) rows.push({ kind: 'gap', old: null, new: null });
    let [before, after] = [hunk.old_start, hunk.new_start];
    let removed: Side[] = [];
    let added: Side[] = [];
    const settle = (): void => {
      for (let k = 0; k < Math.max(removed.length, added.length); k += 1) {
        const [gone, come] = [removed[k] ?? null, added[k] ?? null];
        rows.push({ kind: gone && come ? 'changed' : gone ? 'removed' : 'added', old: gone, new: come });
      }
      removed = [];
      added = [];
    };
    for (const line of hunk.lines) {
      const text = line.slice(1);
      if (line.startsWith('-')) {
        removed.push({ number: before++, text });
      } else if (line.startsWith('+')) {
        added.push({ number: after++, text });
      } else if (line.startsWith('\\')) {
        settle();
        // About the line above: it ends its file without a line break.
        rows.push({ kind: 'gap', old: null, new: null, note: text.trim() });
      } else {
        settle();
        rows.push({ kind: 'same', old: { number: before++, text }, new: { number: after++, text } });
      }
    }
    settle();
  }
  return rows;
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
