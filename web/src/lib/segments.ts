/** A text cut where its look changes. Joined again, the segments are the text, whatever the spans say. */

export interface Span {
  from: number;
  to: number;
  look: string;
}
export interface Segment {
  text: string;
  look: string;
}

export function segments(text: string, ...layers: Span[][]): Segment[] {
  const cuts = new Set([0, text.length]);
  for (const { from, to } of layers.flat()) {
    if (from > 0 && from < text.length) cuts.add(from);
    if (to > 0 && to < text.length) cuts.add(to);
  }
  const places = [...cuts].sort((a, b) => a - b);
  const at = layers.map(() => 0);
  const out: Segment[] = [];
  for (const [i, from] of places.entries()) {
    const to = places[i + 1];
    if (to === undefined) break;
    const looks = layers.map((spans, layer) => {
      // Spans are in order and do not overlap within their layer.
      while ((spans[at[layer] ?? 0]?.to ?? Infinity) <= from) at[layer] = (at[layer] ?? 0) + 1;
      const span = spans[at[layer] ?? 0];
      return span && span.from <= from ? span.look : '';
    });
    out.push({ text: text.slice(from, to), look: looks.filter(Boolean).join(' ') });
  }
  return out;
}

/** The options of a command (`--delete`), which a line break after their hyphens would make hard to read. Long ones may break. */
export function options(command: string): Span[] {
  const found = command.matchAll(/(?<=^|\s)-[\w-]{1,24}(?![\w-])/g);
  return Array.from(found, ({ 0: option, index }) => ({ from: index, to: index + option.length, look: 'unbroken' }));
}
