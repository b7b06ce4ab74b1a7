import type { Reporter, TestCase, TestResult } from '@playwright/test/reporter';

/** Figures beside goals, one line each, as `| what | measured | goal |`. */
export default class Report implements Reporter {
  #missed = false;

  onBegin(): void {
    console.log('| what | measured | goal | |\n|---|---|---|---|');
  }

  onTestEnd(test: TestCase, result: TestResult): void {
    for (const { type, description } of result.annotations) {
      if (type !== 'figure') continue;
      const { what, measured, goal, met } = JSON.parse(description ?? '{}') as Record<string, string | boolean>;
      if (met === false) this.#missed = true;
      console.log(`| ${what} | ${measured} | ${goal || '–'} | ${met === undefined ? '' : met ? 'met' : '**missed**'} |`);
    }
    if (result.status !== 'passed') {
      this.#missed = true;
      console.log(`| ${test.title} | did not finish: ${result.error?.message?.split('\n')[0] ?? ''} | | **missed** |`);
    }
  }

  onEnd(): void {
    console.log(this.#missed ? '\nSome goals were missed.' : '\nAll goals were met.');
  }
}
