/** When a text that streams is drawn next. Times are in milliseconds, as animation frames have them. */

/** It is drawn no more often than this: nobody reads faster. */
const SHORTEST_PAUSE = 30;
/** Text that comes faster than this many characters a millisecond fills the screen anew before anybody can read a line. */
const READABLE = 40;
/** The pause then: enough to see that it goes on, and the machine has time for what writes the text. */
const RUSH_PAUSE = 100;
/** Where drawing takes long, there is as much time between two drawings as they take, but no more than this. */
const LONGEST_PAUSE = 250;

export class Pace {
  #came = 0;
  #drawn = -Infinity;
  #next = 0;

  came(characters: number): void {
    this.#came += characters;
  }

  isDue(now: number): boolean {
    return now >= this.#next;
  }

  drawn(now: number): void {
    // What comes after a rest came within moments.
    const within = Math.min(RUSH_PAUSE, Math.max(SHORTEST_PAUSE, now - this.#drawn));
    const rushes = this.#came > READABLE * within;
    [this.#came, this.#drawn] = [0, now];
    this.#next = now + (rushes ? RUSH_PAUSE : SHORTEST_PAUSE);
  }

  /** The frame after a drawing has begun: what was drawn is on the screen. */
  shown(now: number): void {
    this.#next = Math.max(this.#next, this.#drawn + Math.min(LONGEST_PAUSE, 2 * (now - this.#drawn)));
  }
}
