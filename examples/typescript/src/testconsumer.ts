import { mock } from "node:test";
import { setImmediate } from "node:timers/promises";
import { Consumer, type Options } from "./consumer.js";
import type { Contract } from "./contract.js";
import { closing, consuming, TestBroker, type Content, type Frame } from "./testbroker.js";

/** Lets the mocked time pass until a condition is met, step by step. */
export async function pass(isMet: () => unknown, step = 10): Promise<void> {
  while (!isMet()) {
    mock.timers.tick(step);
    await setImmediate(); // the broker and the program exchange frames
  }
}

/** A consumer in a test. It gets one message unless messages is set, and its contract is unreadable after these. */
export interface Setup extends Partial<Options<string>> {
  contracts: Contract[];
  messages?: number;
  content?: Content;
  receive?: (frame: Frame) => void;
}

/** Runs a consumer during a trial, with mocked time. It logs to logged, which returns the details of an event. */
export async function consume(
  { contracts, messages = 1, content = {}, receive = () => undefined, ...options }: Setup,
  trial: (consumer: Consumer<string>, logged: (event: string) => Record<string, unknown> | undefined) => Promise<void>,
): Promise<void> {
  mock.timers.enable({ apis: ["setTimeout", "setInterval", "Date"] });
  const broker = new TestBroker({ ...consuming(messages, content), ...closing }, receive);
  const events = new Map<string, Record<string, unknown>>();
  const consumer = new Consumer({
    url: await broker.listen(), contract: async () => contracts.shift() ?? Promise.reject(new Error("unreadable")), decode: String,
    handle: async () => undefined, concurrency: 1, prefetch: 1, drainMilliseconds: 30_000, ...options,
    log: (event, details) => events.set(event, details),
  });
  const stop = new AbortController();
  let over = false;
  const ended = consumer.run(stop.signal).then(() => { over = true; });
  try {
    await trial(consumer, (event) => events.get(event));
  } finally {
    stop.abort();
    await pass(() => over);
    await ended;
    broker.close();
    mock.timers.reset();
  }
}
