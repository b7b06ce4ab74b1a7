import { spawn, type ChildProcess } from 'node:child_process';
import { dirname, join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import { aye } from './support';

/** A PostgreSQL server with an empty database. It ends when its input does, so that it outlives no test. */
export class Postgres {
  private constructor(
    readonly url: string,
    readonly child: ChildProcess,
    readonly lines: Interface,
  ) {}

  static async start(): Promise<Postgres> {
    const child = spawn(join(dirname(aye), 'scratch-postgres'), { stdio: ['pipe', 'pipe', 'inherit'] });
    const lines = createInterface({ input: child.stdout! });
    const url = await new Promise<string>((resolve, reject) => {
      lines.once('line', resolve);
      child.once('exit', () => reject(new Error('PostgreSQL did not start')));
    });
    return new Postgres(url, child, lines);
  }

  /** As a power cut would, or starts it again. */
  async turn(to: 'stop' | 'start'): Promise<void> {
    const done = new Promise((resolve) => this.lines.once('line', resolve));
    this.child.stdin!.write(`${to}\n`);
    await done;
  }

  async end(): Promise<void> {
    const ended = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.stdin!.end();
    await ended;
  }
}
