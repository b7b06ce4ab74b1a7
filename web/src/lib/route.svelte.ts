/** Where in the page we are: it is after the # of the address, so that back, reload and links work. */

export type Route =
  | { at: 'inbox'; ask: string | null }
  | { at: 'agents' }
  | { at: 'agent'; id: string }
  | { at: 'start' }
  | { at: 'history'; query: URLSearchParams }
  | { at: 'policy' }
  | { at: 'settings' }
  | { at: 'passkeys' }
  | { at: 'nowhere' };

function read(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?');
  const [place, id] = path.split('/').map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return '';
    }
  });
  switch (place) {
    case 'asks':
      return { at: 'inbox', ask: id || null };
    case 'agents':
      return id ? { at: 'agent', id } : { at: 'agents' };
    case 'start':
      return { at: 'start' };
    case 'history':
      return { at: 'history', query: new URLSearchParams(query) };
    case 'policy':
      return { at: 'policy' };
    case 'settings':
      return { at: 'settings' };
    case 'passkeys':
      return { at: 'passkeys' };
    case '':
      return { at: 'inbox', ask: null };
    default:
      return { at: 'nowhere' };
  }
}

class Place {
  // A sign-in link has something else behind its #.
  route = $state.raw<Route>(read(location.pathname === '/sign-in' ? '' : location.hash));

  start(): void {
    addEventListener('hashchange', () => {
      this.route = read(location.hash);
    });
  }
}

export const place = new Place();

const WANTED = 'aye.wanted';
const LASTS = 15 * 60_000;

/** Where a person wanted to go who must sign in first, in another tab perhaps. */
export function rememberPlace(): void {
  if (location.pathname === '/' && /^#\/./.test(location.hash)) {
    localStorage.setItem(WANTED, JSON.stringify({ hash: location.hash, at: Date.now() }));
  }
}

export function returnToPlace(): void {
  const kept = localStorage.getItem(WANTED);
  localStorage.removeItem(WANTED);
  if (!kept || place.route.at !== 'inbox' || place.route.ask) return;
  try {
    const { hash, at } = JSON.parse(kept) as { hash: string; at: number };
    if (Date.now() - at < LASTS) go(hash, true);
  } catch {
    // What cannot be read is no place to go.
  }
}

export const askAddress = (id: string): string => `#/asks/${encodeURIComponent(id)}`;
export const agentAddress = (id: string): string => `#/agents/${encodeURIComponent(id)}`;

export function go(address: string, replace = false): void {
  if (replace) location.replace(address);
  else location.hash = address;
}
