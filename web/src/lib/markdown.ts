/**
 * Markdown, read into plain data. Nothing in it becomes HTML, and links stay text: what an agent writes may
 * look nice, but it can do nothing.
 */

export type Inline =
  | { is: 'text'; text: string }
  | { is: 'code'; text: string }
  | { is: 'strong' | 'em' | 'del'; inside: Inline[] }
  | { is: 'link'; inside: Inline[]; target: string }
  | { is: 'break' };

export type Block =
  | { is: 'heading'; level: number; inside: Inline[] }
  | { is: 'paragraph'; inside: Inline[] }
  | { is: 'code'; lang: string; text: string }
  | { is: 'quote'; blocks: Block[] }
  | { is: 'list'; ordered: boolean; items: Item[] }
  | { is: 'table'; head: Inline[][]; rows: Inline[][][] }
  | { is: 'rule' };

export interface Item {
  /** Its marker, as it was written: agents count as they please. */
  mark: string;
  checked: boolean | null;
  blocks: Block[];
}

/** Longer runs of text are shown as they are: nobody reads them as prose, and hostile ones cost time. */
const LONGEST_INLINE = 8_000;
const DEEPEST = 6;

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$/;
const RULE = /^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])([ \t]+|$)/;
const TABLE_RULE = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

export function markdown(text: string, depth = 0): Block[] {
  return readBlocks(text.replace(/\r\n/g, '\n').split('\n'), depth);
}

function readBlocks(lines: string[], depth: number): Block[] {
  const blocks: Block[] = [];
  let i = 0;
  const line = (at: number): string => lines[at] ?? '';
  while (i < lines.length) {
    const here = line(i);
    if (here.trim() === '') {
      i += 1;
      continue;
    }
    const fence = FENCE.exec(here);
    if (fence) {
      const mark = fence[1] ?? '```';
      const close = new RegExp(`^ {0,3}${mark[0] === '~' ? '~' : '`'}{${mark.length},}[ \\t]*$`);
      const body: string[] = [];
      for (i += 1; i < lines.length && !close.test(line(i)); i += 1) body.push(line(i));
      i += 1;
      blocks.push({ is: 'code', lang: (fence[2] ?? '').trim(), text: body.join('\n') });
      continue;
    }
    const heading = HEADING.exec(here);
    if (heading) {
      blocks.push({ is: 'heading', level: (heading[1] ?? '#').length, inside: inline(heading[2] ?? '') });
      i += 1;
      continue;
    }
    if (RULE.test(here)) {
      blocks.push({ is: 'rule' });
      i += 1;
      continue;
    }
    if (QUOTE.test(here) && depth < DEEPEST) {
      const inside: string[] = [];
      for (; i < lines.length && QUOTE.test(line(i)); i += 1) inside.push(line(i).replace(QUOTE, ''));
      blocks.push({ is: 'quote', blocks: readBlocks(inside, depth + 1) });
      continue;
    }
    if (ITEM.test(here) && depth < DEEPEST) {
      const [list, next] = readList(lines, i, depth);
      blocks.push(list);
      i = next;
      continue;
    }
    if (here.includes('|') && TABLE_RULE.test(line(i + 1)) && line(i + 1).includes('-')) {
      const head = cells(here);
      const rows: Inline[][][] = [];
      for (i += 2; i < lines.length && line(i).includes('|'); i += 1) rows.push(cells(line(i)));
      blocks.push({ is: 'table', head, rows });
      continue;
    }
    const words: string[] = [here];
    for (i += 1; i < lines.length && !endsParagraph(line(i), depth); i += 1) words.push(line(i));
    blocks.push({ is: 'paragraph', inside: inline(words.join('\n')) });
  }
  return blocks;
}

function endsParagraph(line: string, depth: number): boolean {
  return (
    line.trim() === '' ||
    FENCE.test(line) ||
    HEADING.test(line) ||
    (depth < DEEPEST && (QUOTE.test(line) || ITEM.test(line)))
  );
}

function readList(lines: string[], from: number, depth: number): [Block, number] {
  const first = ITEM.exec(lines[from] ?? '');
  const ordered = /\d/.test(first?.[2] ?? '');
  const items: Item[] = [];
  let i = from;
  while (i < lines.length) {
    const mark = ITEM.exec(lines[i] ?? '');
    if (!mark || /\d/.test(mark[2] ?? '') !== ordered) break;
    const indent = (mark[1] ?? '').length + (mark[2] ?? '').length + 1;
    const inside = [(lines[i] ?? '').slice(mark[0].length)];
    for (i += 1; i < lines.length; i += 1) {
      const line = lines[i] ?? '';
      const blank = line.trim() === '';
      const next = lines[i + 1] ?? '';
      if (blank && !(/^\s{2,}\S/.test(next) || ITEM.test(next))) break;
      const deep = line.search(/\S/) >= Math.min(indent, 2);
      if (!blank && !deep) break;
      inside.push(blank ? '' : line.slice(Math.min(indent, line.search(/\S/))));
    }
    while ((lines[i] ?? 'end').trim() === '' && ITEM.test(lines[i + 1] ?? '')) i += 1;
    const task = /^\[([ xX])\][ \t]+/.exec(inside[0] ?? '');
    if (task) inside[0] = (inside[0] ?? '').slice(task[0].length);
    items.push({ mark: mark[2] ?? '', checked: task ? task[1] !== ' ' : null, blocks: readBlocks(inside, depth + 1) });
  }
  return [{ is: 'list', ordered, items }, i];
}

function cells(line: string): Inline[][] {
  const inner = line.trim().replace(/^\|/, '').replace(/\|$/, '');
  return inner.split('|').map((cell) => inline(cell.trim()));
}

/** What begins no span, is no escape and ends no line. */
const ORDINARY = /[^\\`[*_~\n]+/y;

export function inline(text: string, depth = 0): Inline[] {
  if (text.length > LONGEST_INLINE || depth > DEEPEST) return [{ is: 'text', text }];
  const out: Inline[] = [];
  let plain = '';
  let i = 0;
  // A mark that has no end once has none later either.
  const endless = new Set<string>();
  const push = (node: Inline): void => {
    if (plain) out.push({ is: 'text', text: plain });
    plain = '';
    out.push(node);
  };
  while (i < text.length) {
    // Most of a text is taken as it is, many characters at once: it may stream in by thousands of lines a second.
    ORDINARY.lastIndex = i;
    const run = ORDINARY.exec(text)?.[0];
    if (run) {
      plain += run;
      i += run.length;
      continue;
    }
    const c = text[i] ?? '';
    const node = spanAt(text, i, depth, endless);
    if (node) {
      push(node[0]);
      i = node[1];
    } else if (c === '\\' && /[\\`*_{}[\]()#+\-.!~|<>]/.test(text[i + 1] ?? '')) {
      plain += text[i + 1];
      i += 2;
    } else if (c === '\n' && (plain.endsWith('\\') || plain.endsWith('  '))) {
      plain = plain.replace(/(\\| {2,})$/, '');
      push({ is: 'break' });
      i += 1;
    } else {
      plain += c;
      i += 1;
    }
  }
  if (plain) out.push({ is: 'text', text: plain });
  return out;
}

const MARKS = [
  ['**', 'strong'],
  ['__', 'strong'],
  ['~~', 'del'],
  ['*', 'em'],
  ['_', 'em'],
] as const;

function spanAt(text: string, i: number, depth: number, endless: Set<string>): [Inline, number] | null {
  const c = text[i] ?? '';
  if (c === '`') {
    let ticks = '`';
    while (text[i + ticks.length] === '`') ticks += '`';
    const end = endless.has(ticks) ? -1 : text.indexOf(ticks, i + ticks.length);
    if (end < 0) {
      endless.add(ticks);
      return null;
    }
    const code = text.slice(i + ticks.length, end);
    return [{ is: 'code', text: /^ .*\S.* $/.test(code) ? code.slice(1, -1) : code }, end + ticks.length];
  }
  if (c === '[') return linkAt(text, i, depth, endless);
  for (const [mark, is] of MARKS) {
    if (!text.startsWith(mark, i) || endless.has(mark)) continue;
    const from = i + mark.length;
    if (/\s/.test(text[from] ?? ' ')) continue;
    if (c === '_' && /\w/.test(text[i - 1] ?? '')) continue;
    const end = closing(text, mark, from + 1);
    if (end < 0) {
      endless.add(mark);
      continue;
    }
    return [{ is, inside: inline(text.slice(from, end), depth + 1) }, end + mark.length];
  }
  return null;
}

function closing(text: string, mark: string, from: number): number {
  for (let end = text.indexOf(mark, from); end >= 0; end = text.indexOf(mark, end + 1)) {
    const before = text[end - 1] ?? ' ';
    const after = text[end + mark.length] ?? ' ';
    const doubled = mark.length === 1 && (after === mark || before === mark);
    if (!/\s/.test(before) && !doubled && !(mark[0] === '_' && /\w/.test(after))) return end;
  }
  return -1;
}

function linkAt(text: string, i: number, depth: number, endless: Set<string>): [Inline, number] | null {
  if (endless.has('[')) return null;
  const middle = text.indexOf('](', i);
  const end = middle < 0 ? -1 : text.indexOf(')', middle);
  if (end < 0) {
    endless.add('[');
    return null;
  }
  const words = text.slice(i + 1, middle);
  if (words.includes('[') || words.includes('\n\n') || words === '') return null;
  const target = text.slice(middle + 2, end).trim();
  return [{ is: 'link', inside: inline(words, depth + 1), target }, end + 1];
}
