/** What asks, answers and states are called. */

import type { Agent, Answer, Ask, By, Json, PermissionAsk, Receipt, ScopeOffer } from './types';
import { glimpse, oneLine } from './visible';

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
    if (!words) return null;
    // The command is shown above, so it is not repeated.
    const plain = words.replace(`\`${oneLine(ask.display?.text ?? '')}\``, 'this command');
    return capital(plain);
  }
  return `${agent}’s own rule: ${offer.rule ?? 'it does not say which'}`;
}

export const ENDED = { answered: 'Answered', expired: 'Expired', withdrawn: 'Withdrawn' } as const;
export const SCOPE = { once: 'once', session: 'for this session', always: 'always' } as const;

/** What kind of request it is; of a permission, what it is for. */
export function heading(ask: Ask): string {
  if (ask.kind !== 'permission') return KIND[ask.kind];
  const { body, display } = ask;
  if (display?.kind === 'command') return display.title;
  if (display?.kind === 'diff') {
    const edits = display.hunks?.length ?? 1;
    return body.tool === 'Write' ? 'Write a file' : edits > 1 ? `Make ${edits} edits in a file` : 'Edit a file';
  }
  const [, server, name] = /^mcp__([A-Za-z0-9-]+)__([A-Za-z0-9_-]+)$/.exec(body.tool) ?? [];
  return name ? `Use ${name} from ${server}` : `Use ${glimpse(body.tool, 80)}`;
}

/** What of a tool's input tells most about it. */
export function gist(input: Json): string {
  const fields = input !== null && typeof input === 'object' && !Array.isArray(input) ? input : {};
  const telling = ['command', 'file_path', 'path', 'pattern', 'url', 'query', 'title', 'description', 'prompt'].map((name) => fields[name]);
  const first = [...telling, ...Object.values(fields)].find((value) => typeof value === 'string' && value.trim());
  return typeof first === 'string' ? first : JSON.stringify(input);
}

/** One line that says what is asked, below its heading. */
export function subject(ask: Ask, most = 160): string {
  switch (ask.kind) {
    case 'question': {
      const [first, ...more] = ask.body.questions;
      return glimpse(first?.question ?? '', most) + (more.length ? ` and ${more.length} more` : '');
    }
    case 'permission': {
      const { display } = ask;
      return glimpse((display?.kind === 'diff' ? display.file : display?.kind === 'command' ? display.text : undefined) ?? gist(ask.body.input), most);
    }
    case 'plan':
      return glimpse((ask.body.plan.trim().split('\n')[0] ?? '').replace(/^#+\s*/, ''), most) || 'An empty plan';
  }
}

/** Who wants what, for people who look elsewhere. */
export function news(ask: Ask, agent: string): string {
  const name = glimpse(agent, 60);
  if (ask.kind !== 'permission') return `${name} has a ${KIND[ask.kind].toLowerCase()}`;
  const wish = heading(ask);
  return `${name} wants to ${wish.charAt(0).toLowerCase()}${wish.slice(1)}`;
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
      if (choice.secret) return '(a secret, not kept)';
      const words = [...(choice.selected ?? []), ...(choice.text ? [choice.text] : [])].join(', ');
      return choice.notes ? `${words} (${choice.notes})` : words;
    });
    return each.join(' · ');
  }
  return answer.message ? `Skipped: ${answer.message}` : 'Skipped';
}

/** What a refusal does beyond refusing, for the button that refuses. */
export const endsTurn = (ask: Ask): string => (ask.can?.deny_ends_turn ? ' (ends the turn)' : '');

/** Whether an answer lets the agent do what it asked for, as the hub reads it. */
export function allows(ask: Ask, answer: Answer): boolean {
  if ('decision' in answer) return answer.decision === 'allow';
  if (ask.kind !== 'question') return false;
  const canAllow = ask.body.questions.map(({ options }) => options.some((option) => option.allows));
  if ('response' in answer) return canAllow.includes(true);
  if (!('answers' in answer)) return false;
  return ask.body.questions.some(({ options }, i) => {
    const choice = answer.answers[i];
    if (!choice || choice.skip) return false;
    return (choice.text !== undefined && canAllow[i]) || options.some((option) => option.allows && choice.selected?.includes(option.label));
  });
}

export const isNo = (answer: Answer | null): boolean => answer !== null && 'decision' in answer && answer.decision === 'deny';

export const RECEIPT: Record<Receipt, { label: string; about: string; tone: 'calm' | 'good' | 'bad' }> = {
  pending: { label: 'Recorded', about: 'Saved. The agent has not picked it up yet.', tone: 'calm' },
  delivered: { label: 'Delivered', about: 'Handed to the agent.', tone: 'calm' },
  confirmed: { label: 'Confirmed', about: 'The agent shows that it took this answer.', tone: 'good' },
  disputed: { label: 'Disputed', about: 'The agent shows a different answer. Check what it is doing.', tone: 'bad' },
  superseded: { label: 'Superseded', about: 'It had already been answered in the agent’s terminal.', tone: 'bad' },
  undelivered: { label: 'Not delivered', about: 'The answer did not reach the agent.', tone: 'bad' },
  unknown: { label: 'Unknown', about: 'It is not known whether the answer arrived.', tone: 'bad' },
};

export const STATE: Record<Agent['state'], string> = {
  working: 'Working',
  waiting: 'Waiting for you',
  idle: 'Idle',
  ended: 'Ended',
  lost: 'Not responding',
};

/** Words for a mode that asks for less than people expect. */
export const ASKS: Record<Agent['asks'], { label: string; about: string } | null> = {
  everything: null,
  unknown: null,
  some: { label: 'Does some things unasked', about: 'Its mode asks only for some of what it does.' },
  nothing: { label: 'Asks for nothing', about: 'Its mode lets it do everything without asking you.' },
};

const REACH: Record<Agent['reach'], string> = {
  driven: 'run by aye',
  hooked: 'in its own terminal',
  watched: 'watched in tmux',
  script: 'script',
};

/** What kind of agent it is and where it runs. */
export function kindOf({ kind, reach }: Agent): string {
  if (kind === 'script') return 'Script';
  const name = agentName(kind);
  return glimpse(`${name === 'The agent' ? kind : name}, ${REACH[reach]}`, 60);
}

/** The end of a path, which tells more than its beginning. */
export function folder(path: string): string {
  const parts = path.split('/').filter(Boolean);
  return parts.length > 2 ? `…/${parts.slice(-2).join('/')}` : path || '–';
}

export const capital = (words: string): string => words.charAt(0).toUpperCase() + words.slice(1);

/** A text cut at its backticks: from the first to the last of them, or from each to the next. */
export function ticked(text: string, outer: boolean): { text: string; code: boolean }[] {
  const [first, last] = [text.indexOf('`'), text.lastIndexOf('`')];
  const parts = outer && last > first ? [text.slice(0, first), text.slice(first + 1, last), text.slice(last + 1)] : text.split('`');
  // What is opened and never closed stays as it is.
  if (parts.length % 2 === 0) return [{ text, code: false }];
  return parts.map((part, i) => ({ text: part, code: i % 2 === 1 })).filter((part) => part.text !== '');
}

export const counted = (n: number, what: string): string => `${n.toLocaleString()} ${what}${n === 1 ? '' : 's'}`;

/** An amount of money; of very little, as many digits as tell it from nothing. */
export const dollars = (amount: number): string => `$${amount.toFixed(amount >= 0.1 || amount === 0 ? 2 : 4)}`;
