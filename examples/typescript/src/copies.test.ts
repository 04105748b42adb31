import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { Consumer, Permanent } from "./consumer.js";
import type { Contract } from "./contract.js";
import { closing, consuming, header, long, method, names, short, TestBroker, type Frame } from "./testbroker.js";

const minute = 60_000;
const exchange = "dead";

/** Closes the channel of a frame, for a reason. */
function closeChannel({ send }: Frame, code: number, reason: string): void {
  send(method, names.closeChannel + code.toString(16).padStart(4, "0") + short(reason) + names.publish);
}

function confirm({ send }: Frame, copy: number): void {
  send(method, names.ack + long(copy) + "00");
}

/** What the broker does with the first copies of a message that failed for good, and what the program does with the message. */
const cases: { name: string; answer: (frame: Frame, copy: number) => void; settled: "ack" | "reject" }[] = [
  { name: "returns", settled: "reject", answer: (frame, copy) => {
    frame.send(method, `003c00320138${short("NO_ROUTE")}${short(exchange)}00`);
    frame.send(header, frame.payload); // with the properties of the copy
    confirm(frame, copy);
  } },
  { name: "refuses", settled: "reject", answer: ({ send }, copy) => send(method, names.nack + long(copy) + "00") },
  { name: "forbids", settled: "reject", answer: (frame) => {
    closeChannel(frame, 403, "ACCESS_REFUSED - access to exchange 'dead' in vhost '/'");
  } },
  { name: "has no exchange for", settled: "reject", answer: (frame) => {
    closeChannel(frame, 404, "NOT_FOUND - no exchange 'dead' in vhost '/'");
  } },
  { name: "finds too large", settled: "reject", answer: (frame) => {
    closeChannel(frame, 406, "PRECONDITION_FAILED - message size 0 is larger than configured max size 0");
  } },
  { name: "does not confirm in time", settled: "ack", answer: () => mock.timers.tick(minute / 2) },
  { name: "cuts the connection of", settled: "ack", answer: ({ socket }) => socket.destroy() },
  { name: "has no exchange for another copy on the channel of", settled: "ack", answer: (frame) => {
    closeChannel(frame, 404, "NOT_FOUND - no exchange 'retry' in vhost '/'");
  } },
  { name: "forbids another copy on the channel of", settled: "ack", answer: (frame) => {
    closeChannel(frame, 403, "ACCESS_REFUSED - access to exchange 'retry' in vhost '/'");
  } },
];

for (const { name, answer, settled } of cases) {
  test(`a message whose copies the broker ${name} is settled by ${settled}`, { timeout: 20_000 }, async (t) => {
    t.after(() => mock.timers.reset());
    mock.timers.enable({ apis: ["setTimeout", "Date"] });
    const tries = 5; // more than there are within 30 s
    let copies = 0, onChannel = 0, settle: (verb: string) => void;
    const verb = new Promise<string>((resolve) => { settle = resolve; });
    const broker = new TestBroker({ ...consuming(1), ...closing }, (frame) => {
      switch (frame.name) {
        case names.openChannel:
          onChannel = 0;
          break;
        case names.contentHeader:
          copies++;
          onChannel++;
          (copies <= tries ? answer : confirm)(frame, onChannel);
          break;
        case names.ack:
          settle("ack");
          break;
        case names.reject:
          settle("reject");
      }
    });
    const park = { exchange, routingKey: "" };
    const contract = { queue: "orders", strategy: "Publish", park, rejectDeadLetters: true } as unknown as Contract;
    const consumer = new Consumer({
      url: await broker.listen(), contract: async () => contract, decode: String, concurrency: 1, prefetch: 1, drainMilliseconds: 1_000,
      handle: async () => {
        throw new Permanent("failed");
      },
      log: () => queueMicrotask(() => mock.timers.tick(10_000)), // each pause begins after a log, and is not longer
    });
    const stop = new AbortController();
    const ended = consumer.run(stop.signal);
    assert.equal(await verb, settled);
    stop.abort();
    await ended;
    broker.close();
  });
}
