/**
 * Characters as the hub counts them: whole code points. Counted without making a list of them, because a text that
 * streams is counted piece by piece.
 */

const isPair = (text: string, at: number): boolean =>
  (text.charCodeAt(at) & 0xfc00) === 0xd800 && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00;

export function characters(text: string): number {
  let count = text.length;
  for (let at = 0; at < text.length; at += 1) if (isPair(text, at)) count -= 1;
  return count;
}

/** What comes after this many characters. */
export function after(text: string, count: number): string {
  let at = 0;
  for (let left = count; left > 0 && at < text.length; left -= 1) at += isPair(text, at) ? 2 : 1;
  return text.slice(at);
}
