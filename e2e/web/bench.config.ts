import { defineConfig } from '@playwright/test';
import tests from './playwright.config';

/** Measures one thing at a time, and prints only what it found. */
export default defineConfig({
  ...tests,
  testDir: 'bench',
  testMatch: '*.bench.ts',
  workers: 1,
  fullyParallel: false,
  timeout: 300_000,
  reporter: [['./bench/report.ts']],
  projects: [{ name: 'bench' }],
});
