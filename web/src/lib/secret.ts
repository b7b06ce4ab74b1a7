/**
 * The page's own half of its session. A cookie is sent to every port of this machine; what lies in the storage
 * of this origin is not. The hub wants both.
 */

const NAME = 'aye.page';
const HANDED_OVER = /^#page=([0-9a-f]{64})$/;

let secret: string | null = null;

/** Takes the secret that a sign-in just handed over, out of sight. */
export function takeSecret(): void {
  const handed = HANDED_OVER.exec(location.hash)?.[1];
  if (handed) {
    localStorage.setItem(NAME, handed);
    history.replaceState(null, '', '/');
  }
  secret = localStorage.getItem(NAME);
}

export const pageSecret = (): string => secret ?? '';
