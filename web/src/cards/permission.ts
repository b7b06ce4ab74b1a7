/** What of a permission's input a person may change, and whether a browser can hold it. */

import type { Json, PermissionAsk, PermissionBody } from '../lib/types';
import { holdsExactly } from './shown';

type Input = PermissionBody['input'];

/** The command itself, where it is what is shown. */
export function isCommand({ body, display }: PermissionAsk): boolean {
  return display?.kind === 'command' && body.input['command'] === display.text;
}

export function editable(ask: PermissionAsk): string {
  return isCommand(ask) ? String(ask.body.input['command']) : JSON.stringify(ask.body.input, null, 2);
}

export interface Edited {
  value?: Input;
  problem?: string;
}

export function edited(ask: PermissionAsk, text: string): Edited {
  if (isCommand(ask)) {
    return text.trim() ? { value: { ...ask.body.input, command: text } } : { problem: 'The command is empty.' };
  }
  try {
    const value: Json = JSON.parse(text);
    if (value === null || typeof value !== 'object' || Array.isArray(value)) return { problem: 'The input must be a JSON object.' };
    return holdsExactly(value) ? { value } : { problem: 'A number in it is too long to be sent exactly.' };
  } catch (error) {
    return { problem: `This is not JSON: ${error instanceof Error ? error.message : 'it cannot be read'}` };
  }
}
