/** An authenticator of the browser's own, which verifies the person, or does not. */

import type { CDPSession, Page } from '@playwright/test';
import { execFileSync } from 'node:child_process';
import { type Hub, aye, expect } from './support';

export interface Device {
  verify: (verified: boolean) => Promise<void>;
  /** Whether somebody touches it whenever it asks to be touched. */
  touch: (touched: boolean) => Promise<void>;
  signs: () => Promise<number>;
}

/** A device with a fingerprint reader, as Chromium plays it. */
export async function device(page: Page, transport: 'internal' | 'usb' = 'internal'): Promise<Device> {
  const cdp: CDPSession = await page.context().newCDPSession(page);
  await cdp.send('WebAuthn.enable');
  const { authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport,
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  });
  return {
    verify: (isUserVerified) => cdp.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified }).then(() => {}),
    touch: (enabled) => cdp.send('WebAuthn.setAutomaticPresenceSimulation', { authenticatorId, enabled }).then(() => {}),
    signs: async () => {
      const { credentials } = await cdp.send('WebAuthn.getCredentials', { authenticatorId });
      return credentials.reduce((sum, credential) => sum + credential.signCount, 0);
    },
  };
}

/** What `aye passkey …` prints. */
export function passkey(hub: Hub, ...more: string[]): string {
  return execFileSync(aye, ['passkey', ...more], { env: hub.environment(), encoding: 'utf8' }).trim();
}

/** Follows the link of `aye passkey add`, and adds the first passkey. */
export async function addFirst(hub: Hub, page: Page, name = 'laptop'): Promise<Device> {
  const made = await device(page);
  await page.goto(passkey(hub, 'add'));
  await expect(page.getByRole('heading', { name: 'Passkeys' })).toBeVisible();
  await page.getByRole('textbox', { name: 'Name of the new passkey' }).fill(name);
  await page.getByRole('button', { name: 'Add the first passkey' }).click();
  await expect(page.getByRole('status').filter({ hasText: `Added: ${name}.` })).toBeVisible();
  return made;
}
