/** What tells a person who looks elsewhere: the tab's title and icon, and notifications if they want them. */

import { hub } from './hub.svelte';
import { askAddress } from './route.svelte';
import { settings } from './settings.svelte';
import type { Ask } from './types';
import { news, subject } from './words';

const ASKED = 'aye.notify';

class Notify {
  /** Said to people who do not see the page. */
  spoken = $state('');
  /** Whether to ask, politely and once, if notifications are wanted. */
  mayAsk = $state(false);
  permission = $state<NotificationPermission | 'unsupported'>('unsupported');
  #begun = false;

  start(): void {
    if ('Notification' in globalThis) this.permission = Notification.permission;
    this.mayAsk = this.permission === 'default' && !localStorage.getItem(ASKED);
    hub.onNew = (asks) => this.#tell(asks);
  }

  async wanted(yes: boolean): Promise<void> {
    this.mayAsk = false;
    localStorage.setItem(ASKED, 'asked');
    if (yes) this.permission = await Notification.requestPermission();
  }

  #tell(asks: Ask[]): void {
    // What was there before the page was opened is news to nobody.
    if (!this.#begun) {
      this.#begun = true;
      if (asks.length !== 1) return;
    }
    const [first] = asks;
    if (!first) return;
    this.spoken = asks.length === 1 ? `${news(first, hub.agentTitle(first.agent))}: ${subject(first, 120)}` : `${asks.length} new requests`;
    if (!document.hidden || !settings.notify || !('Notification' in globalThis) || Notification.permission !== 'granted') return;
    for (const ask of asks.slice(0, 3)) {
      const notice = shown(news(ask, hub.agentTitle(ask.agent)), { body: subject(ask, 200), tag: ask.id });
      if (!notice) return;
      notice.onclick = () => {
        window.focus();
        location.hash = askAddress(ask.id);
        notice.close();
      };
    }
  }
}

/** Some browsers, those of Android, show notifications from service workers alone and throw at everybody else. */
function shown(title: string, options: NotificationOptions): Notification | null {
  try {
    return new Notification(title, options);
  } catch {
    return null;
  }
}

export const notify = new Notify();

export function countInTab(waiting: number, live: boolean, alarms: number): void {
  document.title = `${alarms ? '⚠ ' : ''}${waiting ? `(${waiting}) ` : ''}aye`;
  const icon = document.getElementById('favicon');
  if (!(icon instanceof HTMLLinkElement)) return;
  icon.dataset['plain'] ??= icon.href;
  icon.href = waiting || alarms || !live ? badge(alarms ? '!' : waiting > 99 ? '99' : waiting || '', live) : icon.dataset['plain'];
}

function badge(shown: number | string, live: boolean): string {
  const fill = live ? '#b4440f' : '#6b6e75';
  const svg =
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="${fill}"/>` +
    `<text x="16" y="23" font-family="sans-serif" font-weight="700" font-size="19" fill="#fff" text-anchor="middle">${shown}</text></svg>`;
  return `data:image/svg+xml,${encodeURIComponent(svg)}`;
}
