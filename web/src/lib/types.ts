/** What the hub says, as far as the page reads it. */

export type Kind = 'question' | 'permission' | 'plan';
export type AskState = 'open' | 'answered' | 'expired' | 'withdrawn';
export type Receipt =
  | 'pending'
  | 'delivered'
  | 'confirmed'
  | 'disputed'
  | 'superseded'
  | 'undelivered'
  | 'unknown';
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export interface Offer {
  label: string;
  description: string;
  preview?: string;
  /** Picking it allows something. */
  allows?: boolean;
}
export interface Question {
  question: string;
  header: string;
  options: Offer[];
  multi_select: boolean;
  free_text: boolean;
  /** What is answered goes to the agent and is not kept. */
  secret?: boolean;
}
export interface Hunk {
  old_start: number;
  new_start: number;
  lines: string[];
}
/** What the hub shows of a tool's input. */
export interface Display {
  kind: 'command' | 'diff' | 'json';
  title: string;
  text: string;
  file?: string;
  hunks?: Hunk[];
  /** Whether unchanged and removed lines rest on what the agent's machine says of the file. */
  before?: boolean;
  /** The fields that the display does not show whole. */
  rest: { [key: string]: Json };
  parts?: string[];
  caution?: string;
  /** What the hub would allow from then on, in its words. */
  grants?: { session?: string; always?: string };
}
export type Scope = 'once' | 'session' | 'always';
export interface ScopeOffer {
  scope: Scope;
  rule?: string;
  kept_by?: 'agent' | 'hub';
}
export interface QuestionBody {
  questions: Question[];
}
export interface PermissionBody {
  tool: string;
  input: { [key: string]: Json };
  scopes: ScopeOffer[];
}
export interface PlanBody {
  plan: string;
}

export type Choice =
  | { skip: true }
  | { skip?: undefined; selected?: string[]; text?: string; notes?: string; secret?: { salt: string; mac: string } };
export type QuestionAnswer =
  | { answers: Choice[] }
  | { response: string }
  | { skip: true; message?: string };
export type PermissionAnswer =
  | { decision: 'allow'; scope: Scope; input?: { [key: string]: Json } }
  | { decision: 'deny'; message?: string; interrupt: boolean };
export type PlanAnswer =
  | { decision: 'allow'; plan?: string }
  | { decision: 'deny'; message?: string }
  | { decision: 'outline' };
export type Answer = QuestionAnswer | PermissionAnswer | PlanAnswer;

/** A person on a surface, or a rule. */
export interface By {
  name?: string;
  surface?: string;
  rule?: string;
}

/** What the agent can take from here; what is left out, it can. */
export interface Can {
  answer?: boolean;
  why?: string;
  skip?: boolean;
  response?: boolean;
  text?: boolean;
  notes?: boolean;
  edit?: boolean;
  reason?: boolean;
  outline?: boolean;
  stop?: boolean;
  deny_ends_turn?: boolean;
  /** In the order of the questions, where they differ; it goes before the same fields above. */
  questions?: QuestionCan[];
}
export interface QuestionCan {
  skip?: boolean;
  text?: boolean;
  notes?: boolean;
}

interface AskBase {
  id: string;
  key: string;
  agent: string;
  cwd: string;
  /** Whether the system bears out that the agent works there; else that is the agent's word. */
  cwd_checked?: boolean;
  tool_use_id: string | null;
  sub_agent?: string | null;
  digest: string;
  created_at: string;
  deadline: string | null;
  /** What allowing it takes. */
  proof?: 'passkey';
  state: AskState;
  receipt: Receipt | null;
  by: By | null;
  ended_at: string | null;
  note: string | null;
  can?: Can;
}
export interface QuestionAsk extends AskBase {
  kind: 'question';
  body: QuestionBody;
  answer: QuestionAnswer | null;
}
export interface PermissionAsk extends AskBase {
  kind: 'permission';
  body: PermissionBody;
  display?: Display;
  answer: PermissionAnswer | null;
}
export interface PlanAsk extends AskBase {
  kind: 'plan';
  body: PlanBody;
  answer: PlanAnswer | null;
}
export type Ask = QuestionAsk | PermissionAsk | PlanAsk;

export interface Agent {
  id: string;
  kind: string;
  reach: 'driven' | 'hooked' | 'watched' | 'script';
  host: string;
  cwd: string;
  title: string;
  session: string | null;
  tmux?: string;
  /** Its process, while it runs. */
  pid?: number;
  state: 'working' | 'waiting' | 'idle' | 'ended' | 'lost';
  /** Its mode, by how much it asks for, as far as the agent tells. */
  asks: 'everything' | 'some' | 'nothing' | 'unknown';
  cost: number | null;
  open_asks: number;
  outline: { until: string; ask: string; digest: string } | null;
  created_at: string;
}

export type AgentEvent = { type: string; [field: string]: Json | undefined };

export interface Notice {
  about: string;
  problem: string | null;
  /** What is in force until it is fixed. */
  meanwhile: string | null;
}

/** What was added to a text that streams; `from` counts the characters before it. */
export interface TextPiece {
  id: string;
  from: number;
  text: string;
}

export type Message =
  | { type: 'snapshot'; seq: number; asks: Ask[]; next?: string; agents: Agent[]; notices?: Notice[] }
  | { type: 'ask'; seq: number; ask: Ask }
  | { type: 'agent'; seq: number; agent: Agent }
  | { type: 'event'; seq: number; agent: string; event: AgentEvent }
  | (TextPiece & { type: 'piece'; agent: string; seq?: undefined })
  | { type: 'notice'; seq: number; notice: Notice };

export interface Grant {
  id: string;
  words: string;
  tool: string;
  folder: string;
  agent: string | null;
  expires_at: string | null;
  by: By;
  at: string;
}

/** An approval that an agent keeps by a rule of its own. */
export interface KeptRule {
  ask: string;
  agent: string;
  rule: string;
  file: string | null;
  found: 'there' | 'gone' | 'session' | 'unknown';
  /** What that means, and how to take the approval back. */
  words: string;
  by: By | null;
  at: string | null;
}

export interface Rule {
  number: number;
  name: string | null;
  action: 'allow' | 'deny' | 'ask';
  agent: string | null;
  cwd: string | null;
  tool: string | null;
  command: string | null;
  read_as: string | null;
  input: { [field: string]: string };
  cautions: string[];
  message: string | null;
  proof: 'none' | 'passkey';
}
export interface Policy {
  auto_approve: string[];
  rules: Rule[];
  timeout: { question: string | null; permission: string | null; plan: string | null };
  /** wait, reject, or such as `reject after 5m` */
  when_unattended: string;
  outline_preapproval: 'same' | 'next';
  /** What every allow takes. */
  proof: 'none' | 'passkey';
  problem: string | null;
  /** What is in force until it is fixed. */
  meanwhile: string | null;
  decided: { rule: string; asks: number }[];
}
