import { expect, test } from '@playwright/test';
import { Pace } from '../../web/src/lib/pace';

/** When a text is drawn that comes evenly, frame by frame, at so many characters a millisecond. */
function drawings(speed: number, frame = 1000 / 60): number[] {
  const pace = new Pace();
  const times: number[] = [];
  for (let now = 0; now < 1000; now += frame) {
    if (times.at(-1) === now - frame) pace.shown(now);
    pace.came(speed * frame);
    if (!pace.isDue(now)) continue;
    pace.drawn(now);
    times.push(now);
  }
  return times;
}

test('text that can be read is drawn at every second frame, and text that rushes by ten times a second', () => {
  expect(drawings(0.5).length).toBe(30);
  expect(drawings(30).length).toBe(30);
  expect(drawings(700).length).toBeGreaterThanOrEqual(9);
  expect(drawings(700).length).toBeLessThanOrEqual(11);
});

test('a rush that is over is drawn as often as before', () => {
  const pace = new Pace();
  pace.came(100_000);
  pace.drawn(0);
  expect(pace.isDue(90)).toBe(false);
  expect(pace.isDue(100)).toBe(true);
  pace.came(100);
  pace.drawn(100);
  expect(pace.isDue(131)).toBe(true);
});

test('where a frame takes long, as much time is left for everything else, but never too much', () => {
  const pace = new Pace();
  pace.drawn(0);
  pace.shown(80);
  expect(pace.isDue(150)).toBe(false);
  expect(pace.isDue(160)).toBe(true);
  pace.drawn(160);
  pace.shown(5_160);
  expect(pace.isDue(410)).toBe(true);
});
