/** What asks, answers and states are called. */

import type { Agent, Answer, Ask, By, PermissionAsk, Receipt, ScopeOffer } from './types';
import { glimpse } from './visible';

export const KIND = { question: 'Question', permission: 'Permission', plan: 'Plan' } as const;
const AGENTS: Record<string, string> = { claude: 'Claude', codex: 'Codex', opencode: 'OpenCode', gemini: 'Gemini', qwen: 'Qwen', kimi: 'Kimi', copilot: 'Copilot' };

/** What kind of agent it is, as its makers write it. */
export const agentName = (kind: string | undefined): string => AGENTS[kind ?? ''] ?? 'The agent';

/**
 * What an approval that reaches further than once would allow, by whoever keeps it: an agent's own rule in the
 * agent's words, and else what the hub says; none if it cannot be had.
 */
export function scopeInWords(offer: ScopeOffer, ask: PermissionAsk, agent: string): string | null {
  if (offer.scope === 'once') return '';
  const byAgent = offer.kept_by ? offer.kept_by === 'agent' : offer.rule !== undefined;
  if (!byAgent) {
    const words = ask.display?.grants?.[offer.scope];
    return words ? words.charAt(0).toUpperCase() + words.slice(1) : null;
  }
  return `${agent}’s own rule: ${offer.rule ?? 'it does not say which'}`;
}

export const ENDED = { answered: 'Answered', expired: 'Expired', withdrawn: 'Withdrawn' } as const;
export const SCOPE = { once: 'once', session: 'for this session', always: 'always' } as const;

/** One line that says what is asked. */
export function subject(ask: Ask, most = 160): string {
  switch (ask.kind) {
    case 'question': {
      const [first, ...more] = ask.body.questions;
      return glimpse(first?.question ?? '', most) + (more.length ? ` (+${more.length})` : '');
    }
    case 'permission': {
      const { tool, input } = ask.body;
      const { display } = ask;
      if (display?.kind === 'diff') return glimpse(display.title, most);
      return glimpse(`${tool}: ${display?.text ?? JSON.stringify(input)}`, most);
    }
    case 'plan':
      return glimpse((ask.body.plan.trim().split('\n')[0] ?? '').replace(/^#+\s*/, ''), most);
  }
}

export function who(by: By | null): string {
  if (!by) return '';
  if (by.rule) return by.rule === 'auto_approve' ? 'the list of allowed tools' : by.rule.startsWith('grant ') ? 'a standing approval' : by.rule;
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
    if (answer.decision === 'outline') return 'On hold: an outline first';
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
  return answer.message ? `Skipped: ${answer.message}` : 'Skipped';
}

export const RECEIPT: Record<Receipt, { label: string; about: string; tone: 'calm' | 'good' | 'bad' }> = {
  pending: { label: 'Recorded', about: 'Saved. The agent has not picked it up yet.', tone: 'calm' },
  delivered: { label: 'Delivered', about: 'Handed to the agent.', tone: 'calm' },
  confirmed: { label: 'Confirmed', about: 'The agent’s own transcript shows this answer.', tone: 'good' },
  disputed: { label: 'Disputed', about: 'The agent’s own transcript shows a different answer. Check what it is doing.', tone: 'bad' },
  superseded: { label: 'Superseded', about: 'It had already been answered in the agent’s terminal.', tone: 'bad' },
  undelivered: { label: 'Not delivered', about: 'The agent was gone before the answer reached it.', tone: 'bad' },
  unknown: { label: 'Unknown', about: 'Nobody can tell whether the answer arrived.', tone: 'bad' },
};

export const STATE: Record<Agent['state'], string> = {
  working: 'Working',
  waiting: 'Waiting for you',
  idle: 'Idle',
  ended: 'Ended',
  lost: 'Not responding',
};

export const REACH: Record<Agent['reach'], string> = {
  driven: 'run by aye',
  hooked: 'in its own terminal',
  watched: 'watched in tmux',
  script: 'script',
};

/** The end of a path, which tells more than its beginning. */
export function folder(path: string): string {
  const parts = path.split('/').filter(Boolean);
  return parts.length > 2 ? `…/${parts.slice(-2).join('/')}` : path || '–';
}
