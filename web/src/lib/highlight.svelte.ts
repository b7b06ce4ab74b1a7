/** Colours for code, as an ornament: the text is shown before they are there, and is the same without them. */

import type { Span } from './segments';

type Colour = (text: string, language: string) => Span[];

const LONGEST = 40_000;
const BY_ENDING: Record<string, string> = {
  sh: 'bash', bash: 'bash', zsh: 'bash', c: 'c', h: 'c', cc: 'cpp', cpp: 'cpp', hpp: 'cpp', cs: 'csharp', css: 'css', scss: 'css', go: 'go',
  toml: 'ini', ini: 'ini', cfg: 'ini', conf: 'ini', java: 'java', js: 'javascript', mjs: 'javascript', cjs: 'javascript', jsx: 'javascript',
  json: 'json', mk: 'makefile', php: 'php', py: 'python', pyi: 'python', rb: 'ruby', rs: 'rust', sql: 'sql', ts: 'typescript', tsx: 'typescript', mts: 'typescript',
  html: 'xml', xml: 'xml', svg: 'xml', svelte: 'xml', vue: 'xml', yaml: 'yaml', yml: 'yaml',
};
const BY_NAME: Record<string, string> = { dockerfile: 'dockerfile', makefile: 'makefile', shell: 'bash', console: 'bash', python3: 'python', 'c++': 'cpp', node: 'javascript', typescript: 'typescript', javascript: 'javascript', python: 'python', rust: 'rust', ruby: 'ruby' };

export function languageOf(name: string): string {
  const last = (name.split('/').pop() ?? '').toLowerCase();
  return BY_NAME[last] ?? BY_ENDING[last.split('.').pop() ?? ''] ?? '';
}

class Highlight {
  #colour = $state.raw<Colour | null>(null);
  #asked = false;

  /** The spans of a text, or none for now. */
  of(text: string, language: string): Span[] {
    if (!language || text.length > LONGEST) return [];
    if (!this.#asked) void this.#load();
    try {
      return this.#colour?.(text, language) ?? [];
    } catch {
      return [];
    }
  }

  /** The same for lines that belong together, line by line. */
  lines(lines: string[], language: string): Span[][] {
    const out: Span[][] = lines.map(() => []);
    let [line, begins] = [0, 0];
    for (const span of this.of(lines.join('\n'), language)) {
      for (let from = span.from; from < span.to; ) {
        while (from > begins + (lines[line]?.length ?? 0)) begins += (lines[line++]?.length ?? 0) + 1;
        const end = Math.min(span.to, begins + (lines[line]?.length ?? 0));
        if (end > from) out[line]?.push({ from: from - begins, to: end - begins, look: span.look });
        from = end < span.to ? end + 1 : end;
      }
    }
    return out;
  }

  async #load(): Promise<void> {
    this.#asked = true;
    try {
      this.#colour = (await import('./highlighter')).spansOf;
    } catch {
      // Without colours everything is still there.
    }
  }
}

export const highlight = new Highlight();
