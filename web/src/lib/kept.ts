/** The events of a conversation that a page keeps, as the hub keeps them. */

import type { AgentEvent } from './types';

export interface Numbered {
  seq: number;
  event: AgentEvent;
}

export class Kept {
  /** In order. */
  readonly events: Numbered[] = [];
  /** The texts among them that are not complete, by their names. */
  #partial = new Map<string, Numbered>();

  /** Adds an event. One about a text takes the place of what was kept of that text while it was not complete. */
  add(next: Numbered): void {
    const { type, id, partial } = next.event;
    if (type === 'text' && typeof id === 'string') {
      const before = this.#partial.get(id);
      if (before) this.events.splice(this.events.lastIndexOf(before), 1);
      if (partial === true) this.#partial.set(id, next);
      else this.#partial.delete(id);
    }
    this.events.push(next);
  }
}
