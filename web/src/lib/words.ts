/** What asks, answers and states are called. */

import type { Agent, Answer, Ask, By, Receipt } from './types';
import { glimpse } from './visible';

export const KIND = { question: 'Question', permission: 'Permission', plan: 'Plan' } as const;
export const SCOPE = { once: 'once', session: 'for this session', always: 'always' } as const;

/** One line that says what is asked. */
export function subject(ask: Ask, most = 160): string {
  switch (ask.kind) {
    case 'question': {
      const [first, ...more] = ask.body.questions;
      return glimpse(first?.question ?? '', most) + (more.length ? ` (+${more.length})` : '');
    }
    case 'permission': {
      return glimpse(`${ask.body.tool}: ${ask.display.file ?? ask.display.text}`, most);
    }
    case 'plan':
      return glimpse((ask.body.plan.trim().split('\n')[0] ?? '').replace(/^#+\s*/, ''), most);
  }
}

export function who(by: By | null): string {
  if (!by) return '';
  if (by.rule) return by.rule === 'auto_approve' ? 'auto_approve' : by.rule;
  return `${by.name ?? 'somebody'} on ${surface(by.surface)}`;
}

function surface(name: string | undefined): string {
  switch (name) {
    case 'web':
      return 'the web page';
    case 'telegram':
      return 'Telegram';
    case 'terminal':
      return 'the terminal';
    case 'desktop':
      return 'the desktop';
    default:
      return 'the API';
  }
}

/** An answer in one line. */
export function inWords(answer: Answer | null): string {
  if (!answer) return '';
  if ('decision' in answer) {
    if (answer.decision === 'outline') return 'Outline first';
    if (answer.decision === 'deny') return answer.message ? `Denied: ${answer.message}` : 'Denied';
    if ('scope' in answer) return `Allowed ${SCOPE[answer.scope]}${answer.input ? ', edited' : ''}`;
    return 'plan' in answer && answer.plan ? 'Approved, edited' : 'Approved';
  }
  if ('response' in answer) return answer.response;
  if ('answers' in answer) {
    const each = answer.answers.map((choice) => {
      if (choice.skip) return '(skipped)';
      const words = [...(choice.selected ?? []), ...(choice.text ? [choice.text] : [])].join(', ');
      return choice.notes ? `${words} (${choice.notes})` : words;
    });
    return each.join(' · ');
  }
  return answer.message ? `Declined: ${answer.message}` : 'Declined';
}

export const RECEIPT: Record<Receipt, { label: string; about: string; tone: 'calm' | 'good' | 'bad' }> = {
  pending: { label: 'recorded', about: 'On disk; the agent has not taken it yet.', tone: 'calm' },
  delivered: { label: 'delivered', about: 'Written to the agent.', tone: 'calm' },
  confirmed: { label: 'confirmed', about: 'The agent’s own transcript shows it.', tone: 'good' },
  disputed: { label: 'disputed', about: 'The transcript shows something else. Look at the agent.', tone: 'bad' },
  superseded: { label: 'superseded', about: 'The agent’s terminal was first after all.', tone: 'bad' },
  undelivered: { label: 'undelivered', about: 'The agent was gone.', tone: 'bad' },
  unknown: { label: 'unknown', about: 'Nobody can say whether it arrived.', tone: 'bad' },
};

export const STATE: Record<Agent['state'], string> = {
  working: 'working',
  waiting: 'waits for you',
  idle: 'idle',
  ended: 'ended',
  lost: 'not heard of',
};

/** The end of a path, which tells more than its beginning. */
export function folder(path: string): string {
  const parts = path.split('/').filter(Boolean);
  return parts.length > 2 ? `…/${parts.slice(-2).join('/')}` : path || '–';
}
