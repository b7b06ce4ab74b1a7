/**
 * What a person has typed and picked but not sent, kept across reloads. Bound to the digest, so that a draft
 * never fills in another ask; picks are kept by position, so that nothing an agent wrote is stored.
 */

import type { Ask } from './types';

const PREFIX = 'aye.draft.';
const LASTS = 30 * 24 * 3600 * 1000;

const nameOf = (ask: Ask): string => `${PREFIX}${ask.id}.${ask.digest}`;

export function loadDraft<T>(ask: Ask): T | null {
  try {
    const kept = JSON.parse(localStorage.getItem(nameOf(ask)) ?? 'null');
    return kept?.draft ?? null;
  } catch {
    return null;
  }
}

export function saveDraft(ask: Ask, draft: unknown): void {
  try {
    localStorage.setItem(nameOf(ask), JSON.stringify({ at: Date.now(), draft }));
  } catch {
    // A full storage costs the draft its life after a reload, nothing else.
  }
}

export function dropDraft(ask: Ask): void {
  localStorage.removeItem(nameOf(ask));
}

export function dropOldDrafts(now: number): void {
  for (const name of Object.keys(localStorage)) {
    if (!name.startsWith(PREFIX)) continue;
    const at = Number(/^\{"at":(\d+)/.exec(localStorage.getItem(name) ?? '')?.[1] ?? 0);
    if (now - at > LASTS) localStorage.removeItem(name);
  }
}
