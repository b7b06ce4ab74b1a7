/** Which of the open requests are listed, and in which order. */

import type { Ask, Kind } from './types';
import { folder, heading, subject } from './words';

export interface Wanted {
  words: string;
  agent: string;
  project: string;
  kind: Kind | '';
  grouped: boolean;
}

export const everything = (): Wanted => ({ words: '', agent: '', project: '', kind: '', grouped: false });

export const narrowed = (wanted: Wanted): boolean => Boolean(wanted.words.trim() || wanted.agent || wanted.project || wanted.kind);

export type Item = { is: 'ask'; ask: Ask } | { is: 'head'; agent: string; count: number };

/** All that a search looks through. */
function told(ask: Ask, title: (agent: string) => string): string {
  const tool = ask.kind === 'permission' ? ask.body.tool : '';
  return [heading(ask), tool, subject(ask, 1000), title(ask.agent), ask.cwd].join('\n').toLocaleLowerCase();
}

/** Oldest first; grouped, the agent that has waited longest comes first. */
export function itemsOf(asks: Ask[], wanted: Wanted, title: (agent: string) => string): Item[] {
  const words = wanted.words.trim().toLocaleLowerCase();
  const found = asks.filter(
    (ask) =>
      (!wanted.kind || ask.kind === wanted.kind) &&
      (!wanted.agent || ask.agent === wanted.agent) &&
      (!wanted.project || ask.cwd === wanted.project) &&
      (!words || told(ask, title).includes(words)),
  );
  if (!wanted.grouped) return found.map((ask) => ({ is: 'ask', ask }));
  const groups = new Map<string, Ask[]>();
  for (const ask of found) groups.set(ask.agent, [...(groups.get(ask.agent) ?? []), ask]);
  return [...groups].flatMap(([agent, mine]): Item[] => [
    { is: 'head', agent, count: mine.length },
    ...mine.map((ask): Item => ({ is: 'ask', ask })),
  ]);
}

/** Whether it can be denied or skipped as one of several. */
export const refusable = (ask: Ask): boolean =>
  ask.state === 'open' && ask.can?.answer !== false && !(ask.kind === 'question' && ask.can?.skip === false);

/** What there is to choose from, by name. */
export function choices(asks: Ask[], title: (agent: string) => string): { agents: [string, string][]; projects: [string, string][] } {
  const byName = (all: Map<string, string>): [string, string][] => [...all].sort((a, b) => a[1].localeCompare(b[1]));
  return {
    agents: byName(new Map(asks.map((ask) => [ask.agent, title(ask.agent)]))),
    projects: byName(new Map(asks.map((ask) => [ask.cwd, folder(ask.cwd)]))),
  };
}
