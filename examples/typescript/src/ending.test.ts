import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Consumer } from "./consumer.js";
import type { Contract } from "./contract.js";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

const method = "01", header = "02"; // types of frames
const start = "000a000a000900000000" + "00000005504c41494e" + "00000005656e5f5553"; // connection.start with PLAIN and en_US
const deliver = (tag: number): [string, string][] => [
  [method, `003c003c0174${tag.toString(16).padStart(16, "0")}000000`],
  [header, "003c000000000000000000000000"], // an empty body
];

/** Frames that the broker sends after a method, both in hexadecimal: what a program needs to consume two messages, and to publish. */
const answers: Record<string, [type: string, payload: string][]> = {
  "000a000b": [[method, "000a001e0000000200000000"]], // connection.start-ok: connection.tune
  "000a0028": [[method, "000a002900"]], // connection.open
  "0014000a": [[method, "0014000b00000000"]], // channel.open
  "003c000a": [[method, "003c000b"]], // basic.qos
  "003c0014": [[method, "003c00150174"], ...deliver(1), ...deliver(2)], // basic.consume
  "0055000a": [[method, "0055000b"]], // confirm.select
};
const publish = "003c0028";

/** A broker that answers nothing else: no cancel, no close, no copy. */
function serve(socket: Socket, published: () => void): void {
  const send = (channel: string, type: string, payload: string): void => {
    socket.write(`${type}${channel}${(payload.length / 2).toString(16).padStart(8, "0")}${payload}ce`, "hex");
  };
  let received = "";
  socket.on("data", (data) => {
    received += data.toString("hex");
    if (received.startsWith("414d5150")) { // AMQP
      received = received.slice(16);
      send("0000", method, start);
    }
    for (;;) {
      const [, channel, size] = /^..(.{4})(.{8})/.exec(received) ?? [];
      const end = 14 + 2 * parseInt(size ?? "", 16) + 2;
      if (!channel || received.length < end) {
        return;
      }
      const called = received.slice(14, 22);
      received = received.slice(end);
      answers[called]?.forEach(([type, payload]) => send(channel, type, payload));
      if (called === publish) {
        published();
      }
    }
  });
}

test("a consumer ends within 6 s after its drain although a handler hangs and the broker is silent", { timeout: 20_000 }, async (t) => {
  t.after(() => setTimeout(() => process.exit(), 1_000).unref()); // a consumer that does not end keeps the process running
  const drain = 500, margin = 3_500; // the machine may be busy
  let published = (): void => undefined;
  const copy = new Promise<void>((resolve) => { published = resolve; });
  const server = createServer((socket) => serve(socket, published)).listen(0, "127.0.0.1");
  await once(server, "listening");
  const tiers = [{ exchange: "", routingKey: "wait", delayMilliseconds: 1_000 }];
  const contract = { queue: "orders", strategy: "Publish", maxAttempts: 3, tiers } as unknown as Contract;
  const consumer = new Consumer({
    url: `amqp://guest:guest@127.0.0.1:${(server.address() as AddressInfo).port}`,
    contract: async () => contract,
    decode: String,
    handle: async ({ raw }) => {
      if (raw.fields.deliveryTag === 1) {
        await new Promise(() => undefined);
      }
      throw new Error("failed"); // its copy is not confirmed
    },
    concurrency: 2, prefetch: 2, drainMilliseconds: drain, log: () => undefined,
  });
  const stop = new AbortController();
  const ended = consumer.run(stop.signal);
  await copy;
  const began = Date.now();
  stop.abort();
  setImmediate(collectGarbage);
  await ended;
  const took = Date.now() - began;
  assert.ok(took < drain + 6_000 + margin, `it took ${took} ms`);
  server.close();
});
