/**
 * When the page tries again to reach its hub: soon, because somebody waits for it, and never with all other pages at
 * once, because a hub that just came back has enough to do.
 */

const FIRST = 500;
const GROWS = 1.6;
/** So that a page goes on within two seconds of its hub. */
const LONGEST = 1_200;
/** For a hub that has been away for longer than this, nobody waits at the screen. */
const AWAY = 60_000;
const LONGEST_AWAY = 8_000;

/** How long to wait before the next try, in milliseconds. */
export function pause(tries: number, lostFor: number, chance: number): number {
  const longest = lostFor < AWAY ? LONGEST : LONGEST_AWAY;
  return Math.min(longest, FIRST * GROWS ** tries) * (0.1 + 0.9 * chance);
}

/** How long a try may take: something between us and a hub that is gone may swallow it, and some links are slow. */
export const patience = (tries: number): number => Math.min(20_000, 2_000 * 1.5 ** tries);
