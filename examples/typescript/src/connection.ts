import type { Socket } from "node:net";
import { connect, type ChannelModel } from "amqplib";

/** Opens a connection on which a silent broker is noticed. amqplib has no heartbeats unless the URL asks for them. */
export async function openConnection(url: string, name: string): Promise<ChannelModel> {
  const target = new URL(url);
  if (!target.searchParams.has("heartbeat")) {
    target.searchParams.set("heartbeat", "10");
  }
  const connection = await connect(target.href, { timeout: 10_000, noDelay: true, clientProperties: { connection_name: name } });
  connection.on("error", () => undefined); // "close" follows; without a listener the process would end
  return connection;
}

/** Closes a connection. If the connection is silent or already closed, its socket is destroyed. */
export async function closeConnection(connection: ChannelModel): Promise<void> {
  try {
    await within(5_000, connection.close(), "close the connection");
  } catch {
    (connection.connection as unknown as { stream: Socket }).stream.destroy(); // not in the types of amqplib
  }
}

/**
 * Whether the broker blocks a connection. RabbitMQ reads nothing from a connection that publishes while memory or disk run out. It reads
 * what the connection has sent when the alarm ends.
 */
export class Alarm {
  private blocked = false;
  private ended = -Infinity;

  constructor(connection: ChannelModel) {
    connection.on("blocked", () => {
      this.blocked = true;
    });
    connection.on("unblocked", () => {
      this.blocked = false;
      this.ended = Date.now();
    });
  }

  /** Rejects when the broker takes too long to answer a connection that it has not blocked in this time. */
  async within<R>(milliseconds: number, promise: Promise<R>, what: string): Promise<R> {
    for (;;) {
      try {
        return await within(milliseconds, promise, what);
      } catch (failure) {
        if (!(failure instanceof Late) || !(this.blocked || Date.now() - this.ended < milliseconds)) {
          throw failure;
        }
      }
    }
  }
}

/** The broker did not answer in time. */
export class Late extends Error {}

/**
 * Rejects when a promise takes too long, or as soon as the signal is aborted: an answer that the broker never sends must not stop the
 * program.
 */
export async function within<R>(milliseconds: number, promise: Promise<R>, what: string, signal?: AbortSignal): Promise<R> {
  const done = new AbortController();
  const late = sleep(milliseconds, signal ? AbortSignal.any([signal, done.signal]) : done.signal).then((): never => {
    throw new Late(`${what}: no answer within ${milliseconds} ms`);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    done.abort();
  }
}

/** Resolves after a time, or as soon as the signal is aborted. */
export function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, signal.aborted ? 0 : Math.min(milliseconds, 2 ** 31 - 1)); // the limit of setTimeout
    function done(): void {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    }
    signal.addEventListener("abort", done, { once: true });
  });
}
