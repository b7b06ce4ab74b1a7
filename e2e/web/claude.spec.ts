/** The real Claude Code, with a scripted model behind it, and a person at the page. */

import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Model, text, tool } from './model';
import { addFirst } from './passkey';
import { Hub, aye, expect, outcome, press, ready, test as base, type Ask, type Body } from './support';

const claude = process.env['AYE_TEST_CLAUDE'];

interface Story {
  model: Model;
  work: string;
  environment: Record<string, string>;
  run: (...more: string[]) => ChildProcess;
}

const test = base.extend<{ script: { steps: Body[][] }; policy: string; story: Story; hub: Hub }>({
  script: [{ steps: [] }, { option: true }],
  policy: ['', { option: true }],
  story: async ({ script }, use) => {
    expect(claude, 'AYE_TEST_CLAUDE must name the real program: run scripts/test, which installs it').toBeTruthy();
    const model = await new Model([...script.steps]).start();
    const work = mkdtempSync(join(tmpdir(), 'aye-work-'));
    const environment = {
      AYE_CLAUDE: claude!,
      ANTHROPIC_BASE_URL: model.url,
      ANTHROPIC_API_KEY: 'sk-ant-fake',
      CLAUDE_CONFIG_DIR: join(work, '.claude'),
      HOME: work,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      DISABLE_AUTOUPDATER: '1',
      IS_SANDBOX: '1',
    };
    await use({ model, work, environment, run: () => { throw new Error('the hub is missing'); } });
    model.end();
    rmSync(work, { recursive: true, force: true });
  },
  hub: async ({ story, policy }, use) => {
    const named = Object.keys(story.environment).map((name) => `"${name}"`);
    const hub = await Hub.start(`${policy}\n[agents.claude]\nenv = [${named.join(', ')}]\n`, [], story.environment);
    const runs: ChildProcess[] = [];
    story.run = (...more) => {
      const run = spawn(aye, ['run', ...more, 'do it'], {
        cwd: story.work,
        env: hub.environment(story.environment),
        stdio: 'ignore',
      });
      runs.push(run);
      return run;
    };
    await use(hub);
    for (const run of runs) run.kill('SIGKILL');
    await hub.end();
  },
});

const question = {
  questions: [
    {
      question: 'Which DB?',
      header: 'DB',
      multiSelect: false,
      options: [
        { label: 'PostgreSQL', description: 'a server' },
        { label: 'SQLite', description: 'a file' },
      ],
    },
  ],
};

test.describe('a question', () => {
  test.use({ script: { steps: [[text('I have a **question**.'), tool('toolu_q', 'AskUserQuestion', question)], [text('SQLite it is.')], [text('The docs are written.')]] } });
  test('a run is started from the page, asks, is answered in place, and takes the next prompt', async ({ hub, page, story }) => {
    test.setTimeout(120_000);
    await hub.open(page, '#/start');
    await page.getByRole('combobox', { name: 'Folder' }).fill(story.work);
    await page.getByRole('textbox', { name: 'Prompt' }).fill('choose a database');
    await page.getByRole('button', { name: 'Start' }).click();
    const talk = page.getByRole('list', { name: 'Conversation' });
    await expect(talk).toContainText('choose a database', { timeout: 40_000 });
    await expect(talk.locator('strong', { hasText: /^question$/ })).toBeVisible({ timeout: 40_000 });
    await page.getByText('a file', { exact: true }).click();
    await press(page, 'Submit');
    await expect(outcome(page).locator('[aria-current]')).toHaveText('Confirmed', { timeout: 40_000 });
    await expect(talk).toContainText('SQLite it is.');
    await expect.poll(() => story.model.told()).toContain('\\"Which DB?\\"=\\"SQLite\\"');
    await expect(page.locator('.view > header .chip').first()).toContainText('Idle');
    await page.getByRole('textbox', { name: 'Message to the agent' }).fill('now the docs');
    await page.getByRole('button', { name: 'Send' }).click();
    await expect(talk).toContainText('The docs are written.', { timeout: 40_000 });
    await page.getByRole('button', { name: 'End run…' }).click();
    await page.getByRole('button', { name: 'End this run' }).click();
    await expect(page.locator('.view > header .chip').first()).toContainText('Ended', { timeout: 40_000 });
  });
});

test.describe('permissions', () => {
  const bash = (command: string): Body => ({ command, description: 'x' });
  test.use({
    script: {
      steps: [
        [tool('toolu_1', 'Bash', bash('touch made-once'))],
        [tool('toolu_2', 'Bash', bash('touch wrong'))],
        [tool('toolu_3', 'Write', { file_path: 'note.txt', content: 'hello\n' })],
      ],
    },
  });
  test('a command is allowed, another edited, and a file is refused', async ({ hub, page, story }) => {
    test.setTimeout(120_000);
    await hub.open(page);
    story.run();
    const shown = page.getByRole('group', { name: 'What you would allow', exact: true });
    await expect(shown).toContainText('touch made-once', { timeout: 40_000 });
    await press(page, 'Allow once');
    await expect.poll(() => existsSync(join(story.work, 'made-once')), { timeout: 40_000 }).toBe(true);
    await expect(outcome(page).locator('[aria-current]')).toHaveText('Confirmed', { timeout: 40_000 });

    await page.getByRole('link', { name: 'Next request →' }).click({ timeout: 40_000 });
    await expect(shown).toContainText('touch wrong');
    await page.getByRole('button', { name: 'Edit first' }).click();
    await page.getByRole('textbox', { name: /Your version of the command/ }).fill('touch edited');
    await (await ready(page)).getByRole('button', { name: /Allow your version once/ }).click();
    await expect.poll(() => existsSync(join(story.work, 'edited')), { timeout: 40_000 }).toBe(true);
    expect(existsSync(join(story.work, 'wrong'))).toBe(false);

    await page.getByRole('link', { name: 'Next request →' }).click({ timeout: 40_000 });
    await expect(page.getByRole('group', { name: 'Changes', exact: true })).toContainText('hello');
    await page.getByRole('textbox', { name: 'Reason (optional, sent to the agent)' }).fill('not on a friday');
    await (await ready(page)).getByRole('button', { name: /^Deny/ }).first().click();
    await expect(outcome(page).locator('[aria-current]')).toHaveText('Confirmed', { timeout: 40_000 });
    await expect.poll(() => story.model.told()).toContain('not on a friday');
    expect(existsSync(join(story.work, 'note.txt'))).toBe(false);
  });
});

test.describe('plans', () => {
  test.use({
    script: {
      steps: [
        [tool('toolu_1', 'ExitPlanMode', { plan: '1. everything\n2. at once' })],
        [tool('toolu_2', 'ExitPlanMode', { plan: '1. everything\n2. step by step' })],
      ],
    },
  });
  test('a plan is refused with a comment on a line, and its next version approved edited', async ({ hub, page, story }) => {
    test.setTimeout(120_000);
    await hub.open(page);
    story.run('--mode', 'plan');
    await expect(page.getByRole('article')).toContainText('at once', { timeout: 40_000 });
    await page.getByRole('button', { name: 'Source', exact: true }).click();
    await page.getByRole('button', { name: 'Comment on line 2' }).click();
    await page.getByRole('textbox', { name: 'Comment on line 2' }).fill('smaller steps');
    await (await ready(page)).getByRole('button', { name: /Send back with feedback/ }).click();
    await expect(outcome(page).locator('[aria-current]')).toHaveText('Confirmed', { timeout: 40_000 });
    await expect.poll(() => story.model.told()).toContain('Line 2 (2. at once): smaller steps');

    await page.getByRole('link', { name: 'Next request →' }).click({ timeout: 40_000 });
    await page.getByRole('button', { name: 'Changes', exact: true }).click();
    await expect(page.locator('.added')).toContainText('2. step by step');
    await page.getByRole('button', { name: 'Edit', exact: true }).click();
    await page.getByRole('textbox', { name: /Your version of the plan/ }).fill('1. the very least');
    await (await ready(page)).getByRole('button', { name: /Approve my version/ }).click();
    await expect(outcome(page).locator('[aria-current]')).toHaveText('Confirmed', { timeout: 40_000 });
    await expect.poll(() => story.model.told()).toContain('the very least');
  });
});

test.describe('under a passkey', () => {
  test.use({
    policy: '[[policy.rules]]\ncommand = "touch *"\naction = "ask"\nproof = "passkey"',
    script: {
      steps: [
        [tool('toolu_1', 'Bash', { command: 'touch signed', description: 'x' })],
        [tool('toolu_2', 'Bash', { command: 'touch refused', description: 'x' })],
      ],
    },
  });
  test('a command runs after the press and not otherwise', async ({ hub, page, story }) => {
    test.setTimeout(120_000);
    const mine = await addFirst(hub, page);
    await page.evaluate(() => void (location.hash = '#/'));
    story.run();
    await expect(page.getByRole('group', { name: 'What you would allow', exact: true })).toContainText('touch signed', { timeout: 40_000 });
    const [ask] = (await hub.call<{ asks: Ask[] }>('GET', '/api/asks?state=open', hub.operator())).body.asks;
    expect(await hub.answer(ask!, { decision: 'allow', scope: 'once' })).toBe(403);
    await mine.verify(false);
    await press(page, 'Allow once with passkey');
    await expect(page.getByRole('alert')).toContainText('No passkey was used');
    expect(existsSync(join(story.work, 'signed'))).toBe(false);
    await mine.verify(true);
    await press(page, 'Allow once with passkey');
    await expect.poll(() => existsSync(join(story.work, 'signed')), { timeout: 40_000 }).toBe(true);
    await expect(outcome(page).locator('[aria-current]')).toHaveText(/^confirmed$/i, { timeout: 40_000 });

    await page.getByRole('link', { name: /^Next/ }).click({ timeout: 40_000 });
    await press(page, 'Deny');
    await expect(outcome(page).locator('[aria-current]')).toHaveText(/^confirmed$/i, { timeout: 40_000 });
    expect(existsSync(join(story.work, 'refused'))).toBe(false);
    execFileSync(aye, ['verify'], { env: hub.environment() });
  });
});
