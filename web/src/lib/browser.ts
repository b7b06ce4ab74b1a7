/** A browser that is signed in gets a name by which a person knows it, once; they may give it another. */

import { call, get } from './api';

const SYSTEMS: [RegExp, string][] = [
  [/iPhone|iPad/, 'iOS'],
  [/Android/, 'Android'],
  [/Windows/, 'Windows'],
  [/Mac OS/, 'macOS'],
  [/CrOS/, 'ChromeOS'],
  [/Linux/, 'Linux'],
];
const BROWSERS: [RegExp, string][] = [
  [/Edg\//, 'Edge'],
  [/Firefox\/|FxiOS/, 'Firefox'],
  [/Chrome\/|CriOS/, 'Chrome'],
  [/Safari\//, 'Safari'],
];

export function browserName(agent: string): string {
  const of = (all: [RegExp, string][], unknown: string): string => all.find(([sign]) => sign.test(agent))?.[1] ?? unknown;
  return `${of(BROWSERS, 'Browser')} on ${of(SYSTEMS, 'an unknown system')}`;
}

export async function nameBrowser(): Promise<void> {
  try {
    const { tokens } = await get<{ tokens: { id: string; label: string | null; yours: boolean }[] }>('/api/tokens');
    const mine = tokens.find((token) => token.yours);
    if (!mine || mine.label) return;
    await call('PUT', `/api/tokens/${encodeURIComponent(mine.id)}/label`, { label: browserName(navigator.userAgent) });
  } catch {
    // Who may not see tokens needs no name among them.
  }
}
