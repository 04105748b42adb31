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

/** Closes a connection, which may be gone or silent. */
export async function closeConnection(connection: ChannelModel): Promise<void> {
  await within(5_000, connection.close(), "close the connection").catch(() => undefined);
}

/** The broker did not answer in time. */
export class Late extends Error {}

/** Rejects when a promise takes too long: an answer that the broker never sends must not stop the program. */
export async function within<R>(milliseconds: number, promise: Promise<R>, what: string): Promise<R> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Late(`${what}: no answer within ${milliseconds} ms`)), milliseconds);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Resolves after a time, or as soon as the signal is aborted. */
export function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, signal.aborted ? 0 : milliseconds);
    function done(): void {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    }
    signal.addEventListener("abort", done, { once: true });
  });
}
