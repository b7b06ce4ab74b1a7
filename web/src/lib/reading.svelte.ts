/**
 * Whether a person has seen all of a text: what counts is what was in the viewport, clipped by everything that
 * scrolls around it. A text that the page scrolled by itself counts only where it came to rest; where a person
 * scrolls, everything they pass counts.
 */

import { typing } from './steady';

interface Range {
  from: number;
  to: number;
}

const TOLERANCE = 2;
/** Scrolling goes on by itself for a moment after a hand has left the wheel or the glass. */
const GOES_ON = 300;
const SCROLL_KEYS = new Set(['PageDown', 'PageUp', 'ArrowDown', 'ArrowUp', 'Home', 'End', ' ']);

/** When a person last scrolled; one watch for the whole page. */
class Hands {
  moved = -Infinity;

  start(): void {
    const now = (): void => {
      this.moved = performance.now();
    };
    const options = { capture: true, passive: true };
    addEventListener('wheel', now, options);
    addEventListener('touchmove', now, options);
    addEventListener('keydown', (event) => scrolls(event) && now(), options);
    // A press that lands on nothing inside of what scrolls is one on its scroll bar.
    addEventListener('pointerdown', (event) => event.target instanceof HTMLElement && event.offsetX > event.target.clientWidth && now(), options);
  }

  /** What scrolls next is the page, though a hand may just have left the wheel. */
  rest(): void {
    this.moved = -Infinity;
  }

  /** Whether a person is scrolling right now. */
  scroll(): boolean {
    return performance.now() - this.moved < GOES_ON;
  }
}
function scrolls(event: KeyboardEvent): boolean {
  // On a button the space bar presses.
  const presses = event.key === ' ' && event.target instanceof Element && event.target.closest('button, a, input, summary');
  return SCROLL_KEYS.has(event.key) && !typing(event) && !presses;
}

export const hands = new Hands();

export class Reading {
  /** Stays once it is true: the text is bound to the digest of its card. */
  done = $state(false);
  #seen: Range[] = [];
  #last: Range | null = null;
  #element: HTMLElement | null = null;
  #height = 0;

  /** Attached to the element that holds all of the text and nothing else. */
  content = (element: HTMLElement): (() => void) => {
    this.#element = element;
    [this.#seen, this.#last, this.#height] = [[], null, 0];
    const look = (): void => this.#look();
    const scrolled = (): void => {
      // Scrolling that follows closely on a person's is still theirs.
      if (hands.scroll()) hands.moved = performance.now();
      this.#look();
    };
    const resized = new ResizeObserver(look);
    resized.observe(element);
    const appeared = new IntersectionObserver(look);
    appeared.observe(element);
    addEventListener('scroll', scrolled, { capture: true, passive: true });
    addEventListener('resize', look);
    document.addEventListener('visibilitychange', look);
    return () => {
      resized.disconnect();
      appeared.disconnect();
      removeEventListener('scroll', scrolled, true);
      removeEventListener('resize', look);
      document.removeEventListener('visibilitychange', look);
      if (this.#element === element) this.#element = null;
    };
  };

  /** Brings the first part into sight that was not seen yet. */
  showRest(): void {
    const element = this.#element;
    if (!element) return;
    const unseen = this.#seen[0] && this.#seen[0].from <= TOLERANCE ? this.#seen[0].to : 0;
    const box = scroller(element);
    const top = element.getBoundingClientRect().top + unseen;
    hands.rest();
    box.scrollBy({ top: top - box.getBoundingClientRect().top - 40 });
  }

  #look(): void {
    const element = this.#element;
    if (this.done || !element || document.hidden) return;
    const rect = element.getBoundingClientRect();
    // After a new layout, nothing is known of what was seen before.
    if (Math.abs(rect.height - this.#height) > TOLERANCE) [this.#seen, this.#last, this.#height] = [[], null, rect.height];
    const visible = inSight(element, rect);
    if (!visible) {
      this.#last = null;
      return;
    }
    const passed = this.#last && hands.scroll() ? hull(this.#last, visible) : visible;
    this.#last = visible;
    this.#seen = joined([...this.#seen, passed]);
    const [first, ...more] = this.#seen;
    if (first && !more.length && first.from <= TOLERANCE && first.to >= rect.height - TOLERANCE) this.done = true;
  }
}

/**
 * Which part of an element is in the viewport, measured from its top: where it is out of sight, its end that is nearer,
 * so that a long stroke past it counts from there. None if it is cut off sideways.
 */
function inSight(element: HTMLElement, rect: DOMRect): Range | null {
  let [top, bottom, left, right] = [Math.max(0, rect.top), Math.min(innerHeight, rect.bottom), 0, innerWidth];
  for (let box = element.parentElement; box; box = box.parentElement) {
    if (box === document.documentElement || getComputedStyle(box).overflow === 'visible') continue;
    const clip = box.getBoundingClientRect();
    [top, bottom] = [Math.max(top, clip.top), Math.min(bottom, clip.bottom)];
    [left, right] = [Math.max(left, clip.left), Math.min(right, clip.right)];
  }
  const cutOff = rect.left < left - TOLERANCE || rect.right > right + TOLERANCE;
  if (rect.height === 0 || cutOff) return null;
  if (bottom > top) return { from: top - rect.top, to: bottom - rect.top };
  const end = rect.bottom <= top ? rect.height : 0;
  return { from: end, to: end };
}

function scroller(element: HTMLElement): HTMLElement {
  for (let box = element.parentElement; box; box = box.parentElement) {
    if (/auto|scroll/.test(getComputedStyle(box).overflowY)) return box;
  }
  return document.documentElement;
}

const hull = (a: Range, b: Range): Range => ({ from: Math.min(a.from, b.from), to: Math.max(a.to, b.to) });

function joined(ranges: Range[]): Range[] {
  const out: Range[] = [];
  for (const range of ranges.sort((a, b) => a.from - b.from)) {
    const last = out.at(-1);
    if (last && range.from <= last.to + TOLERANCE) last.to = Math.max(last.to, range.to);
    else out.push({ ...range });
  }
  return out;
}
