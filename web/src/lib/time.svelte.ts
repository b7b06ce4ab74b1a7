/** Times as people say them, and a clock that ticks for all who show one. */

class Clock {
  now = $state(Date.now());

  start(): void {
    setInterval(() => {
      this.now = Date.now();
    }, 1000);
  }
}

export const clock = new Clock();

export function span(milliseconds: number): string {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 && hours < 10 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${Math.floor(hours / 24)} days`;
}

/** Coarse, so that a list of ages does not flicker. */
export function age(at: string, now: number): string {
  const passed = now - Date.parse(at);
  return passed < 10_000 ? 'now' : passed < 60_000 ? `${Math.floor(passed / 10_000) * 10} s` : span(passed);
}

export function ago(at: string, now: number): string {
  const passed = age(at, now);
  return passed === 'now' ? 'just now' : `${passed} ago`;
}

const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });
const SHORT = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' });
const DAY = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });

export const full = (at: string): string => FULL.format(Date.parse(at));

export function short(at: string, now: number): string {
  const date = new Date(at);
  const day = (before: number): string => new Date(now - before * 86_400_000).toDateString();
  const time = SHORT.format(date);
  if (date.toDateString() === day(0)) return `Today, ${time}`;
  return date.toDateString() === day(1) ? `Yesterday, ${time}` : `${DAY.format(date)}, ${time}`;
}

/** The same in the middle of a sentence. */
export const within = (at: string, now: number): string => short(at, now).replace(/^(Today|Yesterday)/, (day) => day.toLowerCase());

/** How long something took, from its milliseconds. */
export const took = (ms: number): string => (ms < 100 ? `${Math.round(ms)} ms` : ms < 120_000 ? `${(ms / 1000).toFixed(1)} s` : span(ms));
