/** What of a permission's input a person may change, and whether a browser can hold it. */

import type { Json, PermissionBody } from '../lib/types';

type Input = PermissionBody['input'];

/** The command itself, where it is what is shown. */
export function ownWords(body: PermissionBody): boolean {
  return body.display.kind === 'command' && body.input['command'] === body.display.text;
}

export function editable(body: PermissionBody): string {
  return ownWords(body) ? body.display.text : JSON.stringify(body.input, null, 2);
}

export interface Edited {
  value?: Input;
  problem?: string;
}

export function edited(body: PermissionBody, text: string): Edited {
  if (ownWords(body)) {
    return text.trim() ? { value: { ...body.input, command: text } } : { problem: 'There is no command left.' };
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

/** The fields that the display does not show, as text. */
export function otherFields(body: PermissionBody): [string, string][] {
  if (body.display.kind === 'json') return [];
  const { kind, hunks } = body.display;
  const shown = (name: string, value: Json): boolean => {
    if (kind === 'command') return name === 'command' && value === body.display.text;
    // Hunks show what changes, and not where.
    return !hunks?.length && typeof value === 'string' && body.display.text.includes(value);
  };
  const text = (value: Json): string => (typeof value === 'string' ? value : JSON.stringify(value, null, 2));
  return Object.entries(body.input)
    .filter(([name, value]) => !shown(name, value))
    .map(([name, value]) => [name, text(value)]);
}
