/** A model that says what a test wrote down: Anthropic's messages API on loopback, streamed. */

import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Body } from './support';

export const text = (words: string): Body => ({ type: 'text', text: words });
export const tool = (id: string, name: string, input: Body): Body => ({ type: 'tool_use', id, name, input });

export class Model {
  url = '';
  /** What the agent sent, which is the only proof of what it took for an answer. */
  heard: Body[] = [];
  #server: Server;

  /** Each step is the blocks of one message; after the last the model says that it is done. */
  constructor(steps: Body[][]) {
    this.#server = createServer((request, response) => {
      const parts: Buffer[] = [];
      request.on('data', (part: Buffer) => parts.push(part));
      request.on('end', () => {
        const asked = parts.length ? (JSON.parse(Buffer.concat(parts).toString()) as Body) : {};
        if (!request.url?.startsWith('/v1/messages') || request.url.includes('count_tokens')) {
          response.setHeader('Content-Type', 'application/json').end('{}');
          return;
        }
        // Titles and the like are asked for on the side, with hardly any tools.
        const aside = ((asked['tools'] as unknown[] | undefined) ?? []).length < 2;
        if (!aside) this.heard.push(asked);
        const blocks = aside ? [text('ok')] : (steps.shift() ?? [text('I am done.')]);
        if (asked['stream']) response.setHeader('Content-Type', 'text/event-stream').end(streamed(blocks));
        else response.setHeader('Content-Type', 'application/json').end(JSON.stringify(message(blocks, stop(blocks))));
      });
    });
  }

  async start(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
    return this;
  }

  end(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  /** All that the model was told, as one text. */
  told(): string {
    return JSON.stringify(this.heard.map((request) => request['messages']));
  }
}

const stop = (blocks: Body[]): string => (blocks.some((block) => block['type'] === 'tool_use') ? 'tool_use' : 'end_turn');

function message(blocks: Body[], reason: string | null): Body {
  const usage = { input_tokens: 10, output_tokens: 10 };
  return { id: 'msg_scripted', type: 'message', role: 'assistant', model: 'scripted', content: blocks, stop_reason: reason, stop_sequence: null, usage };
}

function streamed(blocks: Body[]): string {
  let out = '';
  const event = (content: Body): void => {
    out += `event: ${String(content['type'])}\ndata: ${JSON.stringify(content)}\n\n`;
  };
  event({ type: 'message_start', message: message([], null) });
  for (const [index, block] of blocks.entries()) {
    const words = block['type'] === 'text';
    const begin = words ? text('') : { ...block, input: {} };
    event({ type: 'content_block_start', index, content_block: begin });
    const delta = words
      ? { type: 'text_delta', text: block['text'] }
      : { type: 'input_json_delta', partial_json: JSON.stringify(block['input']) };
    event({ type: 'content_block_delta', index, delta });
    event({ type: 'content_block_stop', index });
  }
  event({ type: 'message_delta', delta: { stop_reason: stop(blocks), stop_sequence: null }, usage: { output_tokens: 10 } });
  event({ type: 'message_stop' });
  return out;
}
