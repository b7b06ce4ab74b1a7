import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@playwright/test';
import { feedbackOf } from '../../web/src/cards/plan';
import { Conversation } from '../../web/src/lib/conversation';
import { compare, linesOf, rowsOf, wordsChanged } from '../../web/src/lib/diff';
import { Kept, type Numbered } from '../../web/src/lib/kept';
import { inline, markdown, type Block, type Inline } from '../../web/src/lib/markdown';
import { names } from '../../web/src/lib/names';
import { segments } from '../../web/src/lib/segments';
import type { Agent } from '../../web/src/lib/types';
import { oneLine, piecesAs, visible } from '../../web/src/lib/visible';
import { RECEIPT } from '../../web/src/lib/words';
import { root } from './support';

interface Vector {
  text: string;
  visible: string;
  one_line: string;
}

test('what the hub makes visible, the page makes visible, and as it does', () => {
  const vectors = JSON.parse(readFileSync(join(root, 'crates/core/src/visible/vectors.json'), 'utf8')) as Vector[];
  expect(vectors.length).toBeGreaterThan(5);
  for (const vector of vectors) {
    expect(visible(vector.text)).toBe(vector.visible);
    expect(oneLine(vector.text)).toBe(vector.one_line);
  }
  // Half of a character, which the hub would refuse, is not hidden either.
  expect(visible('a\ud800b')).toBe('a\\u{d800}b');
});

test('the receipts that are trouble elsewhere are trouble on the page', () => {
  const shared = JSON.parse(readFileSync(join(root, 'crates/aye/src/surfaces/receipts.json'), 'utf8')) as { receipt: keyof typeof RECEIPT; trouble: boolean }[];
  expect(shared.map(({ receipt }) => receipt)).toEqual(Object.keys(RECEIPT));
  for (const { receipt, trouble } of shared) expect(RECEIPT[receipt].tone === 'bad', receipt).toBe(trouble);
});

test('agents that are called alike have the same names as elsewhere', () => {
  const cases = JSON.parse(readFileSync(join(root, 'crates/core/src/agent/names.json'), 'utf8')) as { agent: Agent; name: string }[][];
  for (const listed of cases) {
    const found = names(listed.map(({ agent }) => agent));
    for (const { agent, name } of listed) expect(found.get(agent.id)).toBe(name);
  }
});

test('markdown becomes blocks, and HTML and links in it stay words', () => {
  const kinds = (text: string): string[] => markdown(text).map((block) => block.is);
  expect(kinds('# a\n\nb\n\n- c\n- d\n\n1. e\n\n> f\n\n---\n\n```js\ng\n```\n\n|h|i|\n|-|-|\n|j|k|')).toEqual([
    'heading',
    'paragraph',
    'list',
    'list',
    'quote',
    'rule',
    'code',
    'table',
  ]);
  expect(inline('<b>x</b>')).toEqual([{ is: 'text', text: '<b>x</b>' }]);
  expect(inline('[a](javascript:x)')).toEqual([{ is: 'link', inside: [{ is: 'text', text: 'a' }], target: 'javascript:x' }]);
  expect(inline('a **b *c* d** `e*f*` snake_case_name')).toEqual([
    { is: 'text', text: 'a ' },
    { is: 'strong', inside: [{ is: 'text', text: 'b ' }, { is: 'em', inside: [{ is: 'text', text: 'c' }] }, { is: 'text', text: ' d' }] },
    { is: 'text', text: ' ' },
    { is: 'code', text: 'e*f*' },
    { is: 'text', text: ' snake_case_name' },
  ]);
});

// What takes quadratic time outlasts the test.
test('hostile markdown is read to its end', () => {
  for (const piece of ['*', '**a', '`', '[', '](', '> ', '- ', '_a', '|', '```\n', '\\', '~~', '#']) {
    expect(markdown(piece.repeat(20_000))).toBeTruthy();
    expect(markdown(`${piece}\n`.repeat(5_000))).toBeTruthy();
  }
});

test('a diff shows what was removed beside what came in its place', () => {
  const rows = rowsOf([{ old_start: 5, new_start: 5, lines: [' a', '-b', '-c', '+d', ' e', '+f'] }]);
  expect(rows.map((row) => [row.kind, row.old?.number ?? null, row.new?.number ?? null])).toEqual([
    ['same', 5, 5],
    ['changed', 6, 6],
    ['removed', 7, null],
    ['same', 8, 7],
    ['added', null, 8],
  ]);
  expect(compare('a\nb\nc', 'a\nx\nc\nd').lines).toEqual([' a', '-b', '+x', ' c', '+d']);
  expect(compare('', 'a').lines).toEqual(['-', '+a']);
  expect(compare('same', 'same').lines).toEqual([' same']);
});

test('comments on lines follow the general feedback, in the order of the lines', () => {
  expect(feedbackOf('a\nb', { 1: 'no', 0: ' ' }, ' all ')).toBe('all\n\nLine 2 (b): no');
  expect(feedbackOf('a', {}, '')).toBe('');
});

test('streamed text comes out as the whole does, however it is cut', () => {
  const whole = 'First **bold**.\n\n```js\nlet a = 1;\n\nlet b = 2;\n```\n\n- one\n- two\n\nThe end.';
  const shown = (cuts: number): unknown => {
    const talk = new Conversation();
    let seq = 0;
    for (let i = 0; i < whole.length && cuts; i += cuts) {
      talk.add({ id: 't', from: i, text: whole.slice(i, i + cuts) }, 1);
      // What was written of it, a little behind.
      if (i % 5 === 0) talk.take((seq += 1), { type: 'text', id: 't', text: whole.slice(0, i), partial: true }, 1);
      if (i + cuts < whole.length) expect(talk.speakingSince).toBe(1);
    }
    talk.take(seq + 1, { type: 'text', id: 't', text: whole }, 1);
    expect(talk.speakingSince).toBeNull();
    return talk.pieces.map((piece) => (piece.is === 'words' ? piece.block : piece));
  };
  const expected = shown(0);
  for (const cuts of [1, 3, 7, 1000]) expect(shown(cuts)).toEqual(expected);
});

test('what settles differently from what was streamed replaces it, and nothing comes twice', () => {
  const talk = new Conversation();
  talk.add({ id: 't', from: 0, text: 'wrong\n\nwords' }, 1);
  talk.take(2, { type: 'text', id: 't', text: 'right words' }, 1);
  talk.take(2, { type: 'trouble', text: 'again' }, 1);
  talk.take(3, { type: 'tool', id: 'u', name: 'Bash', input: {} }, 1);
  talk.take(4, { type: 'tool_result', id: 'u', failed: false, text: 'ok', sub_agent: 'Explore: tests' }, 1);
  talk.take(5, { type: 'of the future' }, 1);
  expect(talk.pieces.map((piece) => piece.is)).toEqual(['words', 'tool']);
  expect(talk.pieces[1]).toMatchObject({ tool: { subAgent: 'Explore: tests', result: { text: 'ok', failed: false } } });
  expect(talk.toolAt('u')).toBe(1);
});

test('a text that streams is put together from what comes, whatever was missed or comes twice', () => {
  const shown = (talk: Conversation): string => talk.pieces.map((piece) => (piece.is === 'tail' ? piece.text : piece.is)).join('|');
  const talk = new Conversation();
  talk.add({ id: 't', from: 0, text: 'a🦀' }, 1);
  talk.add({ id: 't', from: 1, text: '🦀b' }, 1);
  expect(shown(talk)).toBe('a🦀b');
  // One was missed: what does not join on waits for the text so far.
  talk.add({ id: 't', from: 5, text: 'never' }, 1);
  expect(shown(talk)).toBe('a🦀b');
  talk.take(1, { type: 'text', id: 't', text: 'a🦀bcd', partial: true }, 1);
  talk.add({ id: 't', from: 5, text: 'e' }, 1);
  // What happens meanwhile is above it, and the text goes on.
  talk.take(2, { type: 'tool', id: 'u', name: 'Bash', input: {} }, 1);
  talk.add({ id: 't', from: 6, text: 'f' }, 1);
  expect(shown(talk)).toBe('tool|a🦀bcdef');
  expect(talk.toolAt('u')).toBe(0);
  talk.take(3, { type: 'text', id: 't', text: 'a🦀bcdef' }, 1);
  talk.add({ id: 't', from: 0, text: 'late' }, 1);
  expect(shown(talk)).toBe('tool|words');
});

test('of a text that streams, only the last version is kept', () => {
  const known = new Kept();
  const text = (seq: number, text: string, partial: boolean): Numbered => ({ seq, event: { type: 'text', id: 't', text, ...(partial ? { partial } : {}) } });
  const tool = { seq: 2, event: { type: 'tool', id: 't', name: 'Bash', input: {} } };
  known.add(text(1, 'a', true));
  known.add(tool);
  known.add(text(3, 'ab', true));
  expect(known.events).toEqual([tool, text(3, 'ab', true)]);
  known.add(text(4, 'abc', false));
  // Another text of the same name does not take the place of one that is complete.
  known.add(text(5, 'x', true));
  expect(known.events).toEqual([tool, text(4, 'abc', false), text(5, 'x', true)]);
});

test('joiners are part of the writing in prose, and nowhere else', () => {
  const prose = (text: string): string => (piecesAs(text, { prose: true }) ?? [{ text }]).map((piece) => piece.text).join('');
  for (const text of ['\u{1f468}\u200d\u{1f469}\u200d\u{1f467}', 'می\u200cخواهم', 'क्\u200dष', '\u{1f3f3}\ufe0f\u200d\u{1f308}']) {
    expect(prose(text)).toBe(text);
    expect(visible(text)).not.toBe(text);
  }
  expect(prose('a\u200d')).toBe('a\\u{200d}');
  expect(prose('rm \u200c-rf')).toBe('rm \\u{200c}-rf');
  expect(prose('a\u200d\u200db\u202e')).toContain('\\u{200d}\\u{200d}b\\u{202e}');
});

test('word by word, a line shows what the other one does not have, and always all of itself', () => {
  const changed = (text: string, other: string | null): string[] => wordsChanged(text, other).map(({ from, to }) => text.slice(from, to));
  expect(changed('const MOST: usize = 50;', 'const MOST: usize = 10;')).toEqual(['50']);
  expect(changed('something else entirely', 'const MOST: usize = 10;')).toEqual([]);
  expect(changed('new', null)).toEqual([]);
  const text = 'let a = "b"; // c';
  const parts = segments(text, [{ from: 0, to: 3, look: 'k' }, { from: 8, to: 11, look: 's' }], [{ from: 2, to: 9, look: 'changed' }]);
  expect(parts.map((part) => part.text).join('')).toBe(text);
  expect(parts.find((part) => part.text === 'let'.slice(2))?.look).toBe('k changed');
  const lines = linesOf(rowsOf([{ old_start: 0, new_start: 0, lines: ['-a', '-b', '+c', '\\ No newline at end of file', ' d'] }]));
  expect(lines.map((line) => `${line.kind} ${line.side?.text} ${line.side?.unended ?? false}`)).toEqual(['removed a false', 'removed b false', 'added c true', 'same d false']);
});

/** Everything that a reader of these blocks sees. */
function shownOf(blocks: Block[]): string {
  const words = (inside: Inline[]): string =>
    inside.map((node) => ('text' in node ? node.text : node.is === 'break' ? '\n' : node.is === 'link' ? `${words(node.inside)} ${node.target}` : words(node.inside))).join('');
  return blocks
    .map((block) => {
      if (block.is === 'heading' || block.is === 'paragraph') return words(block.inside);
      if (block.is === 'code') return `${block.lang}\n${block.text}`;
      if (block.is === 'quote') return shownOf(block.blocks);
      if (block.is === 'list') return block.items.map((item) => `${block.ordered ? item.mark : ''} ${shownOf(item.blocks)}`).join('\n');
      return block.is === 'table' ? [block.head, ...block.rows].map((row) => row.map(words).join(' ')).join('\n') : '';
    })
    .join('\n');
}

test('no word and no number of a plan is lost when it is rendered, however it is marked up', () => {
  const BITS = ['# ', '## ', '- ', '* ', '> ', '```', '```sh hidden', '~~~ info', '    ', '**', '_', '`', '[', '](', ')', '![', '|', '|-|-|', '---', '<!--', '-->', '<b>', '\n', '\n\n', '\n', '1. ', '7) ', '007. ', 'alpha', 'b2ta', 'gamma ', ' delta', 'x_y', '\\', '  ', '"title"'];
  const lost: string[] = [];
  let state = 7;
  const roll = (below: number): number => ((state = (Math.imul(state, 1103515245) + 12345) >>> 0) >>> 8) % below;
  const letters = (text: string): string => text.replace(/[^\p{L}\p{N}]/gu, '');
  for (let n = 0; n < 20_000; n += 1) {
    const source = Array.from({ length: 1 + roll(14) }, () => BITS[roll(BITS.length)]!).join('');
    if (letters(shownOf(markdown(source))) !== letters(source)) lost.push(source);
  }
  expect(lost).toEqual([]);
});
