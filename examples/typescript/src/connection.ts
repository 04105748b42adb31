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

/** How many milliseconds a broker may take to close something: a process must end in its grace period. */
export const closeTimeout = 3_000;

/** Closes a connection. If the connection is silent or already closed, its socket is destroyed. */
export async function closeConnection(connection: ChannelModel): Promise<void> {
  try {
    await within(closeTimeout, connection.close(), "close the connection");
  } catch (failure) {
    // The stream is not in the types of amqplib. Without an error, amqplib would not notice, and requests would wait on.
    (connection.connection as unknown as { stream: Socket }).stream.destroy(failure as Error);
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

/** Something took longer than its limit. */
export class Late extends Error {}

/**
 * Rejects when a promise takes too long, or as soon as the signal is aborted: an answer that the broker never sends must not stop the
 * program.
 */
export async function within<R>(milliseconds: number, promise: Promise<R>, what: string, signal?: AbortSignal): Promise<R> {
  const limit = limited(milliseconds, what, signal);
  const ended = aborted(limit.signal).then((): never => {
    throw limit.signal.reason;
  });
  try {
    return await Promise.race([promise, ended]);
  } finally {
    limit.clear();
  }
}

/** Resolves after a time, or as soon as the signal is aborted. */
export function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  return aborted(limited(milliseconds, "sleep", signal).signal);
}

/**
 * Returns a signal that is aborted after a time, or with another signal. Call clear when you need it no more. AbortSignal.any would leave
 * an entry at the other signal for each call (nodejs/node#54614), and an AbortSignal.timeout in it may be collected before it fires
 * (nodejs/node#57736).
 */
export function limited(milliseconds: number, what: string, signal?: AbortSignal): { signal: AbortSignal; clear: () => void } {
  const control = new AbortController();
  const late = (): void => end(new Late(`${what}: not done within ${milliseconds} ms`));
  const follow = (): void => end(signal?.reason);
  const timer = setTimeout(late, Math.min(milliseconds, 2 ** 31 - 1)); // the limit of setTimeout
  const clear = (): void => {
    clearTimeout(timer);
    signal?.removeEventListener("abort", follow);
  };
  const end = (reason: unknown): void => {
    clear();
    control.abort(reason);
  };
  signal?.addEventListener("abort", follow);
  if (signal?.aborted) {
    follow();
  }
  return { signal: control.signal, clear };
}

/** Resolves as soon as one of the signals is aborted. */
export function aborted(...signals: AbortSignal[]): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      signals.forEach((signal) => signal.removeEventListener("abort", end));
      resolve();
    };
    signals.forEach((signal) => signal.addEventListener("abort", end));
    if (signals.some((signal) => signal.aborted)) {
      end();
    }
  });
}
