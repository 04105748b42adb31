import assert from "node:assert/strict";
import { test } from "node:test";
import { Defer } from "./consumer.js";
import type { Contract } from "./contract.js";
import { delivery, long, method, names, short, type Frame } from "./testbroker.js";
import { consume, pass } from "./testconsumer.js";

const second = 1_000, minute = 60 * second;
const tiers = [{ exchange: "wait", routingKey: "", delayMilliseconds: second }];
const contract = { queue: "orders", strategy: "Publish", maxAttempts: 3, tiers } as unknown as Contract; // the consumer timeout is 30 min

/** Handlers that ignore their signals, until release is called with the number of one, from 0. */
function stuckHandlers(): { handle: () => Promise<void>; release: (() => void)[] } {
  const release: (() => void)[] = [];
  return { release, handle: () => new Promise((resolve) => { release.push(resolve); }) };
}

function until(time: number): Promise<void> {
  return pass(() => Date.now() >= time, second);
}

test("the message of a handler that ignores its signal is settled before the consumer timeout", { timeout: 20_000 }, async () => {
  const { handle, release } = stuckHandlers();
  const settled: string[] = [];
  let copy = "", properties = "", confirm = (): void => undefined;
  const receive = ({ name, payload, send }: Frame): void => {
    switch (name) {
      case names.publish:
        copy = payload;
        break;
      case names.contentHeader:
        properties = Buffer.from(payload, "hex").toString("latin1");
        confirm = () => send(method, names.ack + long(1) + "00");
        break;
      case names.ack:
      case names.nack:
      case names.reject:
        settled.push(payload);
    }
  };
  await consume({ contracts: [contract], handle, receive }, async () => {
    await pass(() => release.length === 1, 0);
    await until(28 * minute);
    assert.equal(copy, "", "the handler has 0.95 of the consumer timeout");
    await until(28.5 * minute);
    await pass(() => properties !== "", 0);
    await until(28.5 * minute + 5 * second);
    confirm(); // the consumer timeout has not passed
    await pass(() => settled.length > 0, 0);
    assert.ok(copy.startsWith(`${names.publish}0000${short("wait")}`), copy);
    assert.match(properties, /x-failure-kindS....timeout/s);
    assert.match(properties, /1970-01-01T00:28:30Z/, "the time of the failure");
    release[0]!(); // the handler succeeds, too late
    await until(30 * minute);
    assert.deepEqual(settled, [`${names.ack}${long(1)}00`]);
  });
});

test("a deferred message is returned before the consumer timeout", { timeout: 20_000 }, async () => {
  const late = { queue: "orders", strategy: "Requeue", consumerTimeoutMilliseconds: minute } as Contract;
  let handling = false, returnedAt = 0;
  const handle = async (): Promise<never> => {
    handling = true;
    await new Promise((resolve) => setTimeout(resolve, 40 * second));
    throw new Defer(30 * second);
  };
  const receive = ({ name }: Frame): void => {
    if (name === names.nack) {
      returnedAt = Date.now();
    }
  };
  await consume({ contracts: [late], handle, receive }, async () => {
    await pass(() => handling, 0);
    await pass(() => returnedAt > 0, second);
    assert.ok(returnedAt < minute, `it was returned after ${returnedAt} ms`);
  });
});

test("messages that wait for the slots of stuck handlers are returned before the consumer timeout", { timeout: 20_000 }, async () => {
  const { handle, release } = stuckHandlers();
  const returned: string[] = [];
  let copies = 0, acks = 0;
  const receive = ({ name, payload, send }: Frame): void => {
    switch (name) {
      case names.nack:
        returned.push(payload);
        delivery(4 + returned.length).forEach(([type, frame]) => send(type, frame)); // the message comes again
        break;
      case names.contentHeader:
        send(method, `${names.ack}${long(++copies)}00`); // the confirm
        break;
      case names.ack:
        acks++;
    }
  };
  const nacks = (...tags: number[]): string[] => tags.map((tag) => `${names.nack}${long(tag)}02`); // requeue
  await consume({ contracts: [contract], handle, receive, messages: 4, concurrency: 2, prefetch: 4 }, async (_, logged) => {
    await pass(() => release.length === 2, 0);
    await until(16 * minute); // a handler has 12 min, and a message may be held for 28.5 min
    assert.deepEqual(returned, []);
    await until(17 * minute);
    await pass(() => returned.length === 2, 0);
    assert.deepEqual(returned, nacks(3, 4));
    assert.equal(logged("returned")?.["queue"], "orders");
    await until(28.5 * minute);
    await pass(() => acks === 2, 0);
    await until(32 * minute);
    assert.deepEqual(returned, nacks(3, 4), "the new consumer timeout has begun at 17 min");
    await until(36 * minute);
    await pass(() => returned.length === 4, 0);
    assert.deepEqual(returned, nacks(3, 4, 5, 6));
    assert.equal(release.length, 2, "a stuck handler keeps its slot");
  });
});

test("a consumer whose handlers all ignore their signals is neither live nor ready", { timeout: 20_000 }, async () => {
  const { handle, release } = stuckHandlers();
  await consume({ contracts: [contract], handle, messages: 2, concurrency: 2, prefetch: 2 }, async (consumer) => {
    const health = (): boolean[] => [consumer.live, consumer.ready];
    await pass(() => release.length === 2, 0);
    await until(24 * minute + second);
    assert.deepEqual(health(), [true, true], "the handlers may still end");
    await until(24 * minute + 3 * second);
    assert.deepEqual(health(), [false, false]);
    await until(29 * minute);
    assert.deepEqual(health(), [false, false], "the messages are settled, and the handlers keep their slots");
    release[0]!();
    await pass(() => consumer.live, 0);
    assert.deepEqual(health(), [true, true], "a slot is free");
  });
});
