/**
 * Text from an agent, made safe to look at: what a browser would obey or hide is shown as an escape, and
 * nothing is ever left out. The same characters as in the hub; crates/core/src/visible/vectors.json holds both.
 */

const HIDDEN =
  '\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f' +
  '\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u2800\\u3164\\ufe00-\\ufe0e\\ufeff\\uffa0\\ufff0-\\ufffb' +
  '\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}\\p{Surrogate}';
const SOME = new RegExp(`[${HIDDEN}]`, 'u');
const EACH = new RegExp(`([${HIDDEN}]+)`, 'gu');
const SOME_OF_LINE = new RegExp(`[\\n\\t${HIDDEN}]`, 'u');
const EACH_OF_LINE = new RegExp(`([\\n\\t${HIDDEN}]+)`, 'gu');

export interface Piece {
  text: string;
  /** Whether this is an escape and not what the agent wrote. */
  escape: boolean;
}

function escaped(hidden: string): string {
  let out = '';
  for (const c of hidden) {
    if (c === '\n') out += '\\n';
    else if (c === '\t') out += '\\t';
    else if (c === '\r') out += '\\r';
    else out += `\\u{${(c.codePointAt(0) ?? 0).toString(16)}}`;
  }
  return out;
}

function split(text: string, some: RegExp, each: RegExp): Piece[] {
  if (!some.test(text)) return [{ text, escape: false }];
  const parts = text.split(each);
  const pieces = parts.map((part, i) => ({ text: i % 2 ? escaped(part) : part, escape: i % 2 === 1 }));
  return pieces.filter((piece) => piece.text !== '');
}

/** Whether there is anything to escape. */
const hides = (text: string): boolean => SOME.test(text);
const hidesInLine = (text: string): boolean => SOME_OF_LINE.test(text);

/** Line breaks and tabs stay as they are. */
export const pieces = (text: string): Piece[] => split(text, SOME, EACH);
/** Line breaks and tabs are escaped too. */
export const piecesOfLine = (text: string): Piece[] => split(text, SOME_OF_LINE, EACH_OF_LINE);

/** What joins letters of some scripts, or emoji to one, in a text that is written for people. */
const JOINS = /(?<=[\p{L}\p{M}\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f])[\u200c\u200d](?=[\p{L}\p{M}\p{Extended_Pictographic}])/gu;

/** As prose: joiners within words and emoji are no escapes; everything else is as ever. */
function inProse(text: string, line: boolean): Piece[] {
  const out: Piece[] = [];
  let at = 0;
  const put = (part: string): void => void out.push(...(line ? piecesOfLine(part) : pieces(part)));
  for (const join of text.matchAll(JOINS)) {
    if (join.index > at) put(text.slice(at, join.index));
    out.push({ text: join[0], escape: false });
    at = join.index + 1;
  }
  if (at < text.length) put(text.slice(at));
  return out;
}

export const HIDDEN_CHARACTER = 'A hidden character, made visible';

/** How a text is shown where it hides something; none where it can be shown as it is. */
export function piecesAs(text: string, { line = false, prose = false }: { line?: boolean; prose?: boolean }): Piece[] | null {
  if (!(line ? hidesInLine(text) : hides(text))) return null;
  return prose ? inProse(text, line) : line ? piecesOfLine(text) : pieces(text);
}

const joined = (pieces: Piece[]): string => pieces.map((piece) => piece.text).join('');
export const visible = (text: string): string => joined(pieces(text));
export const oneLine = (text: string): string => joined(piecesOfLine(text));

/** For places that show only a glimpse; the whole is always shown elsewhere. */
export function glimpse(text: string, most = 160): string {
  const line = oneLine(text.slice(0, most * 4).trim().replace(/\s+/g, ' '));
  const characters = [...line];
  return characters.length > most ? `${characters.slice(0, most).join('')}…` : line;
}
