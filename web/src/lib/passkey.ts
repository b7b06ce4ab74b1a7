/** Passkeys: what the hub wants signed, signed by the browser for exactly that. */

import { Refused, post } from './api';
import type { Answer } from './types';

export interface Passkey {
  id: string;
  name: string;
  rp: string;
  created_at: string;
  used_at: string | null;
}
export interface PasskeyList {
  passkeys: Passkey[];
  /** Whether the policy wants one for anything. */
  needed: boolean;
  /** Whether this browser came by the link of `aye passkey add`, and there is none yet. */
  may_add_first: boolean;
}
export interface Assertion {
  nonce: string;
  credential: string;
  authenticator_data: string;
  client_data: string;
  signature: string;
}
export interface Registration {
  nonce: string;
  authenticator_data: string;
  client_data: string;
}
export type Wanted =
  | { purpose: 'register' }
  | { purpose: 'allow'; ask: string; digest: string; answer: Answer }
  | { purpose: 'approve_plan'; agent: string; digest: string }
  | { purpose: 'start_run'; run: Record<string, unknown> }
  | { purpose: 'add_passkey'; registration: Registration; name: string }
  | { purpose: 'remove_passkey'; passkey: string };
interface Challenge {
  nonce: string;
  challenge: string;
  rp: string;
  credentials: string[];
}

/** A little less than the hub waits for it. */
const PATIENCE = 4 * 60_000;
/** ES256, EdDSA, RS256: what the hub can check. */
const ALGORITHMS = [-7, -8, -257];

/** Does something; where the hub wants a passkey for it, signs for it and does it again. */
export async function proven<T>(
  wanted: Wanted,
  isKnown: boolean,
  act: (more: { assertion?: Assertion }) => Promise<T>,
): Promise<T> {
  if (!isKnown) {
    try {
      return await act({});
    } catch (error) {
      if (!(error instanceof Refused && error.proof)) throw error;
    }
  }
  return act({ assertion: await sign(wanted) });
}

export async function sign(wanted: Wanted): Promise<Assertion> {
  supported();
  const challenge = await post<Challenge>('/api/passkeys/challenge', wanted);
  if (!challenge.credentials.length) {
    throw new Refused(
      403,
      `You have no passkey for ${challenge.rp} yet. Run "aye passkey add" in a terminal where the hub runs, and open the link it prints. Until then this can only be denied.`,
    );
  }
  const made = await asked(
    navigator.credentials.get({
      publicKey: {
        challenge: decode(challenge.challenge),
        rpId: challenge.rp,
        allowCredentials: challenge.credentials.map((id) => ({ type: 'public-key', id: decode(id) })),
        userVerification: 'required',
        timeout: PATIENCE,
      },
    }),
  );
  const response = made.response as AuthenticatorAssertionResponse;
  return {
    nonce: challenge.nonce,
    credential: encode(made.rawId),
    authenticator_data: encode(response.authenticatorData),
    client_data: encode(response.clientDataJSON),
    signature: encode(response.signature),
  };
}

/** Makes a new passkey on this device. The hub does not know it yet. */
export async function make(name: string): Promise<Registration> {
  supported();
  const challenge = await post<Challenge>('/api/passkeys/challenge', { purpose: 'register' });
  const made = await asked(
    navigator.credentials.create({
      publicKey: {
        challenge: decode(challenge.challenge),
        rp: { id: challenge.rp, name: 'aye' },
        user: { id: crypto.getRandomValues(new Uint8Array(16)), name, displayName: name },
        pubKeyCredParams: ALGORITHMS.map((alg) => ({ type: 'public-key', alg })),
        excludeCredentials: challenge.credentials.map((id) => ({ type: 'public-key', id: decode(id) })),
        authenticatorSelection: { userVerification: 'required', residentKey: 'preferred' },
        attestation: 'none',
        timeout: PATIENCE,
      },
    }),
  );
  const response = made.response as AuthenticatorAttestationResponse;
  return {
    nonce: challenge.nonce,
    authenticator_data: encode(response.getAuthenticatorData()),
    client_data: encode(response.clientDataJSON),
  };
}

function supported(): void {
  if (!window.PublicKeyCredential) throw new Refused(0, 'Passkeys do not work at this address. Open the page over https, or as localhost.');
}

async function asked(wanted: Promise<Credential | null>): Promise<PublicKeyCredential> {
  try {
    const made = await wanted;
    if (made) return made as PublicKeyCredential;
  } catch (error) {
    const name = error instanceof DOMException ? error.name : '';
    if (name === 'InvalidStateError') throw new Refused(0, 'This device already has a passkey here.');
    if (name !== 'NotAllowedError' && name !== 'AbortError') throw error;
  }
  throw new Refused(0, 'No passkey was used, so nothing was sent.');
}

function encode(bytes: ArrayBuffer): string {
  const text = String.fromCharCode(...new Uint8Array(bytes));
  return btoa(text).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
}

function decode(text: string): Uint8Array<ArrayBuffer> {
  const plain = atob(text.replace(/-/g, '+').replace(/_/g, '/'));
  return Uint8Array.from(plain, (letter) => letter.charCodeAt(0));
}
