/** A half-filled question card, and what it says once it is sent. */

import type { Can, Choice, Question, QuestionAnswer, QuestionCan } from '../lib/types';

export interface Picks {
  picked: number[];
  other: boolean;
  text: string;
  noting: boolean;
  notes: string;
  skip: boolean;
}
export interface QuestionDraft {
  mode: 'answer' | 'reply' | 'skip';
  picks: Picks[];
  response: string;
  message: string;
}

export function emptyDraft(questions: Question[]): QuestionDraft {
  const picks = questions.map((question) => ({
    picked: [],
    // Where nothing is offered, one's own words are all there is.
    other: question.options.length === 0,
    text: '',
    noting: false,
    notes: '',
    skip: false,
  }));
  return { mode: 'answer', picks, response: '', message: '' };
}

/** The kinds of answer that the agent can take for one question. */
export const canFor = (can: Can | undefined, question: number): QuestionCan => can?.questions?.[question] ?? can ?? {};

/** The draft as far as the agent can take it; what that is may have changed since it was written. */
export function takeable(draft: QuestionDraft, can: Can = {}): QuestionDraft {
  const takes = (what: keyof Can): boolean => can[what] !== false;
  const offered = draft.mode === 'answer' || (draft.mode === 'skip' ? takes('skip') : takes('response'));
  const picks = draft.picks.map((each, i) => {
    const { text, notes, skip } = canFor(can, i);
    return { ...each, other: each.other && text !== false, notes: notes !== false ? each.notes : '', skip: each.skip && skip !== false };
  });
  return { ...draft, mode: offered ? draft.mode : 'answer', picks, message: takes('reason') ? draft.message : '' };
}

/** The draft without what is given to questions that ask for a secret, to be kept or shown. */
export function withoutSecrets(questions: Question[], draft: QuestionDraft): QuestionDraft {
  const picks = draft.picks.map((each, i) => (questions[i]?.secret ? { ...each, picked: [], text: '', notes: '' } : each));
  return { ...draft, picks };
}

/** Picks an option, or for the number after the last, one's own words. */
export function pick(question: Question, picks: Picks, option: number): void {
  picks.skip = false;
  const other = option === question.options.length;
  if (other && !question.free_text) return;
  if (question.multi_select) {
    if (other) picks.other = !picks.other;
    else if (picks.picked.includes(option)) picks.picked = picks.picked.filter((i) => i !== option);
    else picks.picked = [...picks.picked, option].sort((a, b) => a - b);
  } else {
    picks.picked = other ? [] : [option];
    picks.other = other;
  }
}

export function isAnswered(picks: Picks): boolean {
  if (picks.skip) return true;
  if (picks.other) return picks.text.trim() !== '';
  return picks.picked.length > 0;
}

export function isComplete(draft: QuestionDraft): boolean {
  if (draft.mode === 'reply') return draft.response.trim() !== '';
  return draft.mode === 'skip' || draft.picks.every(isAnswered);
}

export function answerOf(questions: Question[], draft: QuestionDraft): QuestionAnswer {
  if (draft.mode === 'reply') return { response: draft.response };
  if (draft.mode === 'skip') {
    return draft.message.trim() ? { skip: true, message: draft.message } : { skip: true };
  }
  const answers = questions.map((question, i): Choice => {
    const picks = draft.picks[i];
    if (!picks || picks.skip) return { skip: true };
    const selected = picks.picked.flatMap((option) => question.options[option]?.label ?? []);
    return {
      ...(selected.length ? { selected } : {}),
      ...(picks.other ? { text: picks.text } : {}),
      ...(picks.notes.trim() ? { notes: picks.notes } : {}),
    };
  });
  return { answers };
}

/** What was picked and typed, as text to keep. */
export function inText(questions: Question[], draft: QuestionDraft): string {
  if (draft.mode === 'reply') return draft.response;
  const said = questions.map((question, i) => {
    const picks = draft.picks[i];
    if (!picks || picks.skip) return '';
    const labels = picks.picked.flatMap((option) => question.options[option]?.label ?? []);
    return [...labels, ...(picks.other ? [picks.text] : []), picks.notes].filter((words) => words.trim()).join(', ');
  });
  return [...said, draft.mode === 'skip' ? draft.message : ''].filter(Boolean).join('\n');
}
