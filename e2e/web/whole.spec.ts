/** Whatever an agent raises, lies included: what the page shows, read back, is the input to the last byte. */

import type { Page } from '@playwright/test';
import { fromText, rebuild, same, whole, type Piece } from '../../web/src/cards/shown';
import type { Display, Json, PermissionAsk } from '../../web/src/lib/types';
import { expect, ready, test, type Agent, type Body } from './support';

type Fields = { [name: string]: Json };

/** Numbers in a row that look random and are the same every time. */
function dice(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) | 0;
    const mixed = Math.imul(state ^ (state >>> 12), 0x297a2d39);
    return ((mixed ^ (mixed >>> 15)) >>> 0) % below;
  };
}

const BITS = [
  'rm -rf /', 'a', '', ' ', '\n', '\r\n', '\r', '\t', '\u202e', '\u200d', '\u200c', '\u{1f468}\u200d\u{1f469}', '\u0000', '\u001b[2K', '"', '\\', '\\n', '\\u{202e}', 'true', '5', 'null', '{}', '[1]', '"x"',
  '-old', '+new', ' same', '\\ No newline at end of file', '@@ -1,1 +1,1 @@', '--- a', '<script>', '&amp;', 'שלום', 'é', 'e\u0301', '\u2028', '\u00a0', '\u3000', '\ufeff', '$ ', '…', 'no line break at the end',
];
const NAMES = ['command', 'description', 'file_path', 'content', 'old_string', 'new_string', 'edits', 'replace_all', '__proto__', 'constructor', 'a\u202eb', '', 'two words', 'timeout'];

function raises(n: number): Body[] {
  const roll = dice(20_26);
  const one = <T>(all: T[]): T => all[roll(all.length)]!;
  const text = (): string => Array.from({ length: roll(6) }, () => one(BITS)).join('') + (roll(40) ? '' : 'long '.repeat(2_000));
  const value = (depth = 0): Json => {
    const kind = roll(depth > 2 ? 6 : 9);
    if (kind < 4) return text();
    if (kind === 4) return one([0, 1, -5, 0.1, 1e21, 123456789]);
    if (kind === 5) return one([true, false, null]);
    if (kind === 6) return Array.from({ length: roll(4) }, () => value(depth + 1));
    return Object.fromEntries(Array.from({ length: roll(4) }, () => [one(NAMES), value(depth + 1)]));
  };
  const edit = (): Fields => ({ old_string: text(), new_string: text(), ...(roll(3) ? {} : { replace_all: roll(2) === 0 }), ...(roll(4) ? {} : { [one(NAMES)]: value() }) });
  const lie = (): Body => ({ kind: one(['command', 'diff', 'json']), text: 'ls', title: 'Harmless', file: 'README.md', hunks: [{ old_start: 1, new_start: 1, lines: ['+nothing'] }], rest: {}, caution: text(), parts: ['ls'] });
  return Array.from({ length: n }, () => {
    const tool = one(['Bash', 'Write', 'Edit', 'MultiEdit', 'Fetch', 'B\u0430sh', 'Bash\u200b']);
    const input: Fields =
      tool === 'Bash' ? { command: text() || 'ls', description: text() }
      : tool === 'Write' ? { file_path: text() || 'f', content: text() }
      : tool === 'Edit' ? { file_path: text() || 'f', ...edit() }
      : tool === 'MultiEdit' ? { file_path: text() || 'f', edits: Array.from({ length: 1 + roll(3) }, edit) }
      : {};
    for (let i = roll(3); i > 0; i -= 1) input[one(NAMES)] = value();
    return { tool, input, ...(roll(2) ? { display: lie() } : {}), scopes: [{ scope: 'once' }, { scope: 'session', rule: text() || 'x', ...(roll(2) ? { kept_by: one(['agent', 'hub']) } : {}) }] };
  });
}

/** The input that the pieces show. */
function readBack(pieces: Piece[], tool: string): Json | undefined {
  const named = pieces.flatMap((piece) => (piece.is === 'field' ? [[piece.name, fromText(piece.text)] as [string, Json]] : []));
  const about = pieces.flatMap((piece) => (piece.is === 'words' ? [['description', piece.text] as [string, Json]] : []));
  const rest = Object.fromEntries([...about, ...named]);
  const main = pieces.find((piece) => piece.is !== 'words' && piece.is !== 'field');
  if (!main) return rest;
  if (main.is === 'json') return JSON.parse(main.text) as Json;
  if (main.is === 'command') return { ...rest, command: main.text };
  return main.is === 'diff' ? rebuild({ kind: 'diff', title: '', text: '', file: main.file, hunks: main.hunks, rest } as Display, tool) : undefined;
}

async function raised(bot: Agent, all: Body[]): Promise<[PermissionAsk, Json][]> {
  const out: [PermissionAsk, Json][] = [];
  for (const body of all) out.push([(await bot.raise('permission', body)) as unknown as PermissionAsk, body['input'] as Json]);
  return out;
}

test('what the card is made of is the input, for hundreds of raises', async ({ hub }) => {
  const bot = await hub.agent('bot');
  let asDisplay = 0;
  for (const [ask, input] of await raised(bot, raises(400))) {
    const { pieces, exact } = whole(ask);
    if (!exact) continue;
    expect(same(readBack(pieces, ask.body.tool), input), JSON.stringify({ input, pieces }, null, 1)).toBe(true);
    if (pieces.some((piece) => piece.is === 'diff' || piece.is === 'command')) asDisplay += 1;
  }
  expect(asDisplay).toBeGreaterThan(100);
});

/** The pieces as the page shows them, with what is escaped read back. */
function onScreen(page: Page): Promise<Piece[]> {
  return page.locator('.whole').first().evaluate((box) => {
    const plain = (escape: string): string =>
      escape.replace(/\\(n|t|r|u\{([0-9a-f]+)\})/g, (_, kind: string, code: string) => ({ n: '\n', t: '\t', r: '\r' })[kind] ?? String.fromCodePoint(parseInt(code, 16)));
    const read = (node: Node | null | undefined): string => {
      if (!node) return '';
      if (node instanceof Element && node.matches('.esc')) return plain(node.textContent ?? '');
      return node.nodeType === Node.TEXT_NODE ? (node.textContent ?? '') : [...node.childNodes].map(read).join('');
    };
    const pieces: unknown[] = [];
    for (const piece of box.querySelectorAll<HTMLElement>('[data-piece]')) {
      const is = piece.dataset['piece'];
      if (is === 'words' || is === 'command' || is === 'json') pieces.push({ is, text: read(piece) });
      if (is === 'name') pieces.push({ is: 'field', name: read(piece), text: read(piece.parentElement?.querySelector('[data-piece=value]')) });
      if (is !== 'diff') continue;
      const hunks: { old_start: number; new_start: number; lines: string[] }[] = [{ old_start: 0, new_start: 0, lines: [] }];
      for (const row of piece.querySelectorAll('tr')) {
        if (row.matches('.gap')) hunks.push({ old_start: 0, new_start: 0, lines: [] });
        const cell = row.querySelector('.text');
        if (!cell) continue;
        const lines = hunks.at(-1)!.lines;
        lines.push((cell.matches('.added') ? '+' : cell.matches('.removed') ? '-' : ' ') + read(cell.querySelector('.line')));
        if (cell.querySelector('.unended')) lines.push('\\ No newline at end of file');
      }
      pieces.push({ is: 'diff', file: read(box.querySelector('[data-piece=file]')), hunks });
    }
    return pieces as Piece[];
  });
}

test('what stands on the screen is the input, and lies of the agent stand nowhere', async ({ hub, page }) => {
  test.setTimeout(180_000);
  await page.addInitScript(() => localStorage.setItem('aye.settings', JSON.stringify({ diff: 'unified' })));
  const bot = await hub.agent('bot', { kind: 'claude' });
  const all = await raised(bot, raises(40));
  await hub.open(page);
  for (const [ask, input] of all) {
    await page.evaluate((id) => void (location.hash = `#/asks/${id}`), ask.id);
    await ready(page);
    await expect(page.locator(`[data-ask="${ask.id}"]`)).toBeVisible();
    const pieces = await onScreen(page);
    expect(same(readBack(pieces, ask.body.tool), input), JSON.stringify({ input, pieces }, null, 1)).toBe(true);
    const card = await page.getByRole('article').innerText();
    expect(card).not.toContain('Harmless');
    const session = ask.body.scopes.find((offer) => offer.scope === 'session');
    if (session?.kept_by === 'hub') expect(await page.getByRole('button', { name: /own rule/ }).count()).toBe(0);
  }
});
