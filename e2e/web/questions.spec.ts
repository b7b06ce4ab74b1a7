import { database, expect, outcome, press, ready, test } from './support';

const features = {
  questions: [
    {
      question: 'What should the first release have?',
      header: 'Features',
      multi_select: true,
      free_text: true,
      options: [{ label: 'Dark mode' }, { label: 'Search' }, { label: 'Export, as Markdown' }],
    },
  ],
};
const two = {
  questions: [
    { question: 'How should the list look?', header: 'Layout', options: [{ label: 'Rows' }, { label: 'Cards' }] },
    { question: 'And sorted by?', header: 'Order', options: [{ label: 'Date' }, { label: 'Title' }] },
    { question: 'What is it called?', header: 'Name', free_text: true },
  ],
};

test('a question is answered with the mouse, and its receipts arrive while one looks', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const ask = await bot.raise('question', database);
  await hub.open(page);
  const card = page.getByRole('article');
  await expect(card.getByText('Storage')).toBeVisible();
  await expect(card.getByRole('button', { name: 'Submit' })).toBeDisabled();
  await card.getByText('One file, nothing to run').click();
  await expect(card.getByRole('radio', { name: 'SQLite' })).toBeChecked();
  await press(page, 'Submit');

  await expect(outcome(page)).toContainText('Answered');
  await expect(card.getByText(/on the web page/)).toBeVisible();
  await expect(card.locator('.steps [aria-current]')).toHaveText('Recorded');
  await bot.receipt(ask, 'delivered');
  await expect(card.locator('.steps [aria-current]')).toHaveText('Delivered');
  await bot.receipt(ask, 'confirmed');
  await expect(card.locator('.steps [aria-current]')).toHaveText('Confirmed');
  expect((await hub.ask(ask.id))['answer']).toEqual({ answers: [{ selected: ['SQLite'] }] });
});

test('a receipt that disagrees is an alarm', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const ask = await bot.raise('question', database);
  await hub.open(page);
  await hub.answer(ask, { answers: [{ selected: ['SQLite'] }] });
  await bot.receipt(ask, 'disputed');
  await expect(page.getByRole('article').locator('.chip.bad')).toHaveText('Disputed');
});

test('a question is answered by keyboard alone', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const first = await bot.raise('question', database);
  const second = await bot.raise('question', features);
  await hub.open(page);
  await expect(page.getByRole('article')).toBeVisible();
  await page.keyboard.press('2');
  await expect(page.getByRole('radio', { name: 'PostgreSQL' })).toBeChecked();
  await page.keyboard.press('Enter');
  expect((await hub.ask(first.id)).state).toBe('open');
  await page.keyboard.press('Control+Enter');
  await expect(outcome(page)).toContainText('Answered');
  expect((await hub.ask(first.id))['answer']).toEqual({ answers: [{ selected: ['PostgreSQL'] }] });

  await page.keyboard.press('j');
  await expect(page.getByRole('group', { name: /first release/ })).toBeVisible();
  await page.keyboard.press('1');
  await page.keyboard.press('3');
  await page.keyboard.press('1');
  await page.keyboard.press('Space');
  await expect(page.getByRole('checkbox', { name: 'Dark mode' })).toBeChecked();
  await page.keyboard.press('4');
  await expect(page.getByRole('textbox', { name: 'Your own answer' })).toBeFocused();
  await page.keyboard.type('Offline mode');
  await page.keyboard.press('Control+Enter');
  await expect(page.getByText('You’re all caught up.')).toBeVisible();
  expect((await hub.ask(second.id))['answer']).toEqual({
    answers: [{ selected: ['Dark mode', 'Export, as Markdown'], text: 'Offline mode' }],
  });
  await page.keyboard.press('k');
});

test('Other becomes active when chosen, and leaves the other picks of a multi-select', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  await bot.raise('question', features);
  const single = await bot.raise('question', database);
  await hub.open(page);
  const own = page.getByRole('textbox', { name: 'Your own answer' });
  await page.getByText('Search').click();
  await page.getByRole('checkbox', { name: /^Other/ }).check();
  await expect(own).toBeFocused();
  await expect(page.getByRole('checkbox', { name: 'Search' })).toBeChecked();
  await expect(page.getByRole('button', { name: 'Submit' })).toBeDisabled();
  await own.fill('Sync');
  await expect(page.getByRole('button', { name: 'Submit' })).toBeEnabled();

  await page.evaluate((id) => void (location.hash = `#/asks/${id}`), single.id);
  await page.getByText('SQLite').click();
  await page.getByRole('radio', { name: /^Other/ }).check();
  await expect(page.getByRole('radio', { name: 'SQLite' })).not.toBeChecked();
  await expect(own).toBeFocused();
  await page.getByText('SQLite').click();
  await own.click();
  await expect(page.getByRole('radio', { name: /^Other/ })).toBeChecked();
  await expect(own).toBeFocused();
  // Passing by with the keyboard chooses nothing.
  await page.getByText('SQLite').click();
  await page.keyboard.press('Tab');
  await expect(page.getByRole('radio', { name: 'SQLite' })).toBeChecked();
});

test('a single question has one way to skip it and one way to say it in own words', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  await bot.raise('question', database);
  await hub.open(page);
  const card = await ready(page);
  await expect(card.getByRole('button', { name: /Skip/ })).toHaveCount(1);
  await expect(card.getByRole('checkbox', { name: /Skip/ })).toHaveCount(0);
  await expect(card.getByRole('button', { name: 'Reply in your own words' })).toHaveCount(0);
  await expect(card.locator('button.primary')).toHaveCount(1);
});

test('several questions are sections of one card, with notes, a skip and one submit', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const ask = await bot.raise('question', two);
  await hub.open(page);
  const section = (name: RegExp) => page.getByRole('group', { name });
  await section(/list look/).getByText('Cards').click();
  await expect(page.getByText('2 of 3 left')).toBeVisible();
  await section(/list look/).getByRole('button', { name: 'Add a note' }).click();
  await section(/list look/).getByRole('textbox', { name: 'Note' }).fill('keep it subtle');
  await section(/sorted by/).getByRole('checkbox', { name: 'Skip this question' }).check();
  await section(/is it called/).getByRole('textbox', { name: 'Your own answer' }).fill('Notely');
  await press(page, 'Submit');
  await expect(outcome(page)).toContainText('Answered');
  expect((await hub.ask(ask.id))['answer']).toEqual({
    answers: [{ selected: ['Cards'], notes: 'keep it subtle' }, { skip: true }, { text: 'Notely' }],
  });
});

test('a question can be skipped with a reason, or replied to in own words', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const first = await bot.raise('question', two);
  const second = await bot.raise('question', two);
  await hub.open(page);
  await page.getByRole('button', { name: 'Skip all…', exact: true }).click();
  await page.getByRole('textbox', { name: /Reason/ }).fill('ask me tomorrow');
  await press(page, 'Skip all questions');
  await expect(page.getByText('Skipped: ask me tomorrow')).toBeVisible();
  expect((await hub.ask(first.id))['answer']).toEqual({ skip: true, message: 'ask me tomorrow' });

  await page.getByRole('link', { name: 'Next request →' }).click();
  await page.getByRole('button', { name: 'Reply in your own words' }).click();
  await page.getByRole('textbox', { name: 'Reply in your own words' }).fill('Neither: use files.');
  await press(page, 'Send reply');
  await expect(outcome(page)).toContainText('Answered');
  expect((await hub.ask(second.id))['answer']).toEqual({ response: 'Neither: use files.' });
});

test('previews stand beside the options: as text, as markdown, and as HTML that can do nothing', async ({ hub, page }) => {
  const bot = await hub.agent('bot');
  const html =
    '<div style="color: rgb(1, 2, 3)" id="styled">A mock-up</div><script>document.title = "owned"; parent.postMessage("owned", "*")</script>' +
    '<img src="http://evil.example/x.png" onerror="document.body.dataset.owned = 1"><form action="http://evil.example"><input></form>';
  await bot.raise('question', {
    questions: [
      {
        question: 'Which one?',
        header: 'Look',
        options: [
          { label: 'Boxes', preview: '+-----+\n| box |\n+-----+' },
          { label: 'Words', preview: '# A title\n\nwith **bold** words' },
          { label: 'Page', preview: html },
        ],
      },
    ],
  });
  await hub.open(page);
  await expect(page.getByRole('group', { name: 'Preview', exact: true })).toContainText('| box |');
  await page.getByText('Words', { exact: true }).click();
  await expect(page.locator('.preview strong')).toHaveText('bold');
  await page.getByText('Page', { exact: true }).click();
  const frame = page.frameLocator('iframe[title=Preview]');
  await expect(frame.locator('#styled')).toHaveText('A mock-up');
  await expect(page.locator('iframe[title=Preview]')).toHaveAttribute('sandbox', '');
  const inside = page.frames().find((found) => found.url().includes('/preview/'))!;
  const style = await inside.locator('#styled').evaluate((element) => getComputedStyle(element).color);
  expect(style).toBe('rgb(1, 2, 3)');
  const again = await fetch(inside.url());
  expect(again.status).toBe(404);
  expect(await page.title()).not.toBe('owned');
  await page.getByRole('button', { name: 'Show the source' }).click();
  await expect(page.getByRole('group', { name: 'Preview', exact: true })).toContainText('<script>');
});
