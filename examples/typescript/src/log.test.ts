import assert from "node:assert/strict";
import { test } from "node:test";
import { Defer, Discard, Permanent, type Handler } from "./consumer.js";
import type { Contract } from "./contract.js";
import { short } from "./testbroker.js";
import { consume, pass } from "./testconsumer.js";

const tiers = [{ exchange: "wait", routingKey: "", delayMilliseconds: 1_000 }];
const contract = { queue: "orders", strategy: "Publish", maxAttempts: 3, tiers } as unknown as Contract;

const secret = '{"card": 4111';
const properties = "04a0" + short("trace-7") + short("id-7") + short("OrderCreated"); // correlation-id, message-id and type
const message = {
  queue: "orders", routingKey: "order.created", messageId: "id-7", correlationId: "trace-7", messageType: "OrderCreated", attempt: 1,
  maxAttempts: 3,
};

function throwing(failure: Error): Handler<string> {
  return () => Promise.reject(failure);
}

const cases: { name: string; event: string; details: object; handle?: Handler<string>; decode?: (content: Buffer) => string }[] = [
  { name: "failed", event: "failed", handle: throwing(new Error("broken")),
    details: { kind: "failed", action: "publish", givenUp: undefined, text: "broken" } },
  { name: "failed for good", event: "failed", handle: throwing(new Permanent("wrong")),
    details: { kind: "permanent", action: "ack", givenUp: true, text: "wrong" } },
  { name: "was discarded", event: "discarded", handle: throwing(new Discard("a duplicate")),
    details: { kind: undefined, action: "ack", givenUp: undefined, text: "a duplicate" } },
  { name: "was deferred", event: "deferred", handle: throwing(new Defer(1_000)),
    details: { kind: undefined, action: "publish", givenUp: undefined, text: "deferred" } },
  { name: "cannot be decoded", event: "failed", decode: (content) => JSON.parse(content.toString()) as string,
    details: { kind: "undecodable", action: "ack", givenUp: true, text: undefined } },
];

for (const { name, event, details, ...program } of cases) {
  test(`a message that ${name} is logged without its payload`, { timeout: 20_000 }, async () => {
    const content = { routingKey: "order.created", properties, body: secret };
    await consume({ contracts: [contract], content, ...program }, async (_, logged) => {
      await pass(() => logged(event), 0);
      assert.deepEqual(logged(event), { ...details, ...message });
    });
  });
}
