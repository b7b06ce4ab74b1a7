/** The names that people read for agents, as on the hub's other surfaces. */

import type { Agent } from './types';

type Named = Pick<Agent, 'id' | 'title' | 'cwd' | 'tmux' | 'pid'>;

/** The last part of its folder. */
const folderOf = (agent: Named): string | undefined => agent.cwd.split('/').findLast((part) => part !== '');
/** The title, or else the folder. */
export const called = (agent: Named): string => agent.title.trim() || folderOf(agent) || agent.id;

const DETAILS: ((agent: Named) => string | undefined)[] = [
  folderOf,
  (agent) => agent.tmux && `tmux ${agent.tmux}`,
  (agent) => (agent.pid === undefined ? undefined : `process ${agent.pid}`),
];

/** Agents that are called alike are told apart by the first detail that no other of them has. */
export function names(agents: Iterable<Named>): Map<string, string> {
  const namesakes = new Map<string, Named[]>();
  for (const agent of agents) namesakes.set(called(agent), [...(namesakes.get(called(agent)) ?? []), agent]);
  const found = new Map<string, string>();
  for (const [name, alike] of namesakes) {
    for (const agent of alike) {
      const told = DETAILS.map((of) => ({ of, detail: of(agent) })).find(
        ({ of, detail }) => detail !== undefined && !alike.some((other) => other.id !== agent.id && of(other) === detail),
      );
      found.set(agent.id, alike.length === 1 ? name : `${name} (${told?.detail ?? agent.id})`);
    }
  }
  return found;
}
