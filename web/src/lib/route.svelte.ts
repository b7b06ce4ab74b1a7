/** Where in the page we are: it stands behind the # of the address, so that back, reload and links work. */

export type Route =
  | { at: 'inbox'; ask: string | null }
  | { at: 'agents' }
  | { at: 'agent'; id: string }
  | { at: 'start' }
  | { at: 'history'; query: URLSearchParams }
  | { at: 'policy' };

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
    default:
      return { at: 'inbox', ask: null };
  }
}

class Place {
  route = $state.raw<Route>(read(location.hash));

  start(): void {
    addEventListener('hashchange', () => {
      this.route = read(location.hash);
    });
  }
}

export const place = new Place();

export const askAddress = (id: string): string => `#/asks/${encodeURIComponent(id)}`;
export const agentAddress = (id: string): string => `#/agents/${encodeURIComponent(id)}`;

export function go(address: string, replace = false): void {
  if (replace) location.replace(address);
  else location.hash = address;
}
