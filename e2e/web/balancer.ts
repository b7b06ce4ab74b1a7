import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

/** A balancer in front of hubs: connections go to the first that takes them. */
export class Balancer {
  address = '';
  /** Connections are taken and lead nowhere, as where a machine has just died. */
  swallows = false;
  /** How many connections found no hub. */
  turnedAway = 0;
  #sockets = new Set<Socket>();

  private constructor(
    readonly server: Server,
    public hubs: string[],
  ) {}

  static async start(...hubs: string[]): Promise<Balancer> {
    const server = createServer();
    const balancer = new Balancer(server, hubs);
    server.on('connection', (client) => balancer.#take(client));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    balancer.address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return balancer;
  }

  async end(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.server.close(resolve));
  }

  #take(client: Socket): void {
    this.#keep(client);
    if (this.swallows) return;
    const [first, ...rest] = this.hubs;
    this.#lead(client, first, rest);
  }

  #lead(client: Socket, address: string | undefined, rest: string[]): void {
    if (!address) {
      this.turnedAway += 1;
      client.destroy();
      return;
    }
    const hub = connect(Number(new URL(address).port), '127.0.0.1');
    this.#keep(hub);
    const [next, ...others] = rest;
    const refused = (): void => this.#lead(client, next, others);
    hub.once('error', refused);
    hub.once('connect', () => {
      hub.off('error', refused);
      client.pipe(hub).pipe(client);
      client.once('close', () => hub.destroy());
      hub.once('close', () => client.destroy());
    });
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.once('close', () => this.#sockets.delete(socket));
  }
}
