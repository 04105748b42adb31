import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Consumer } from "./consumer.js";
import type { Contract } from "./contract.js";
import { consuming, names, TestBroker } from "./testbroker.js";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

test("a consumer ends within 6 s after its drain although a handler hangs and the broker is silent", { timeout: 20_000 }, async (t) => {
  t.after(() => setTimeout(() => process.exit(), 1_000).unref()); // a consumer that does not end keeps the process running
  const drain = 500, margin = 3_500; // the machine may be busy
  let published = (): void => undefined;
  const copy = new Promise<void>((resolve) => { published = resolve; });
  const broker = new TestBroker(consuming(2), ({ name }) => { // silent: no cancel, no close, no confirm
    if (name === names.publish) {
      published();
    }
  });
  const tiers = [{ exchange: "", routingKey: "wait", delayMilliseconds: 1_000 }];
  const contract = { queue: "orders", strategy: "Publish", maxAttempts: 3, tiers } as unknown as Contract;
  const consumer = new Consumer({
    url: await broker.listen(),
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
  broker.close();
});

for (const { name, stopsFirst } of [{ name: "during a drain", stopsFirst: true }, { name: "before a drain", stopsFirst: false }]) {
  test(`a consumer whose connection was lost ${name} ends after its handlers`, { timeout: 20_000 }, async () => {
    const order: string[] = [];
    let began = (): void => undefined, finish = began, lose = began, lost = began;
    const handling = new Promise<void>((resolve) => { began = resolve; });
    const finished = new Promise<void>((resolve) => { finish = resolve; });
    const disconnected = new Promise<void>((resolve) => { lost = resolve; });
    const broker = new TestBroker(consuming(1), ({ socket }) => { lose = () => socket.destroy(); });
    const consumer = new Consumer({
      url: await broker.listen(), contract: async () => ({ queue: "orders", strategy: "None" }) as Contract, decode: String,
      handle: async () => { // a handler that ignores its signal
        began();
        await finished;
        order.push("handled");
      },
      concurrency: 1, prefetch: 1, drainMilliseconds: 15_000,
      log: (event) => {
        if (event === "disconnected") {
          lost();
        }
      },
    });
    const stop = new AbortController();
    const ended = consumer.run(stop.signal).then(() => order.push("ended"));
    await handling;
    const steps = stopsFirst ? [() => stop.abort(), lose] : [lose, () => void disconnected.then(() => stop.abort())];
    steps.forEach((step) => step());
    await disconnected;
    await turn(); // a consumer that does not wait ends now
    await turn();
    finish();
    await ended;
    assert.deepEqual(order, ["handled", "ended"]);
    broker.close();
  });
}
