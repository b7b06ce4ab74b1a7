/** What a person chose for this browser. */

const NAME = 'aye.settings';

interface Chosen {
  theme: 'system' | 'light' | 'dark';
  diff: 'split' | 'unified';
  notify: boolean;
}

class Settings {
  theme = $state<Chosen['theme']>('system');
  diff = $state<Chosen['diff']>('split');
  notify = $state(true);

  start(): void {
    try {
      const kept = JSON.parse(localStorage.getItem(NAME) ?? '{}') as Partial<Chosen>;
      if (kept.theme === 'light' || kept.theme === 'dark') this.theme = kept.theme;
      if (kept.diff === 'unified') this.diff = kept.diff;
      if (kept.notify === false) this.notify = false;
    } catch {
      // What cannot be read is as good as never chosen.
    }
    this.#apply();
  }

  set<Name extends keyof Chosen>(name: Name, value: Chosen[Name]): void {
    (this as Chosen)[name] = value;
    localStorage.setItem(NAME, JSON.stringify({ theme: this.theme, diff: this.diff, notify: this.notify }));
    this.#apply();
  }

  #apply(): void {
    document.documentElement.dataset['theme'] = this.theme;
  }
}

export const settings = new Settings();
