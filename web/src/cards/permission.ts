/** What of a permission's input a person may change, and whether a browser can hold it. */

import type { Json, PermissionAsk, ScopeOffer } from '../lib/types';

type Input = PermissionAsk['body']['input'];

/** The command itself, where it is what is shown. */
export function ownWords(ask: PermissionAsk): boolean {
  return ask.display.kind === 'command';
}

export function editable(ask: PermissionAsk): string {
  return ownWords(ask) ? ask.display.text : JSON.stringify(ask.body.input, null, 2);
}

export interface Edited {
  value?: Input;
  problem?: string;
}

export function edited(ask: PermissionAsk, text: string): Edited {
  if (ownWords(ask)) {
    return text.trim() ? { value: { ...ask.body.input, command: text } } : { problem: 'There is no command left.' };
  }
  try {
    const value: Json = JSON.parse(text);
    if (value === null || typeof value !== 'object' || Array.isArray(value)) return { problem: 'This must be a JSON object.' };
    return holdsExactly(value) ? { value } : { problem: 'A number in it is too long to be sent exactly.' };
  } catch (error) {
    return { problem: `This is not JSON: ${error instanceof Error ? error.message : 'it cannot be read'}` };
  }
}

/** Whether every number in it survived being read. */
export function holdsExactly(value: Json): boolean {
  if (typeof value === 'number') return !Number.isInteger(value) ? Number.isFinite(value) : Number.isSafeInteger(value);
  if (Array.isArray(value)) return value.every(holdsExactly);
  if (value !== null && typeof value === 'object') return Object.values(value).every(holdsExactly);
  return true;
}

/** The fields that stand beside what is shown, as text. */
export function otherFields({ display }: PermissionAsk): [string, string][] {
  const text = (value: Json): string => (typeof value === 'string' ? value : JSON.stringify(value, null, 2));
  const file: [string, string][] = display.file === undefined ? [] : [['file', display.file]];
  return [...file, ...Object.entries(display.rest).map(([name, value]): [string, string] => [name, text(value)])];
}

/** What a scope means beyond this once; none where it cannot be had. */
export function scopeWords(ask: PermissionAsk, offer: ScopeOffer): string | null {
  if (offer.scope === 'once') return '';
  const keeper = offer.kept_by ?? (offer.rule === undefined ? 'hub' : 'agent');
  return keeper === 'agent' ? `The agent's own rule: ${offer.rule ?? ''}` : (ask.display.grants?.[offer.scope] ?? null);
}
