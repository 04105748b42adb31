// The program that warren-conformance tests: it does what the body of a message says. Replace decode and handle with your own.
import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { Consumer, Permanent, type Message } from "./consumer.js";
import { parseContract } from "./contract.js";

interface Job {
  verb: string;
  argument: number;
  id: string;
}

function decode(content: Buffer): Job {
  const [, verb, argument, id] = /^(ok|slow|fail|permanent|hang|crash)(?::(\d+))? (\d+)$/.exec(content.toString()) ?? [];
  if (!verb || !id) {
    throw new Error("the body is no instruction");
  }
  return { verb, argument: Number(argument ?? 0), id };
}

async function handle({ body, attempt, raw }: Message<Job>, signal: AbortSignal): Promise<void> {
  console.log(`start ${body.id}`);
  const first = attempt === 1 && !raw.fields.redelivered;
  if (body.verb === "fail" && attempt <= body.argument) {
    throw new Error("failed as told");
  }
  if (body.verb === "permanent") {
    throw new Permanent("permanent as told");
  }
  if (body.verb === "crash" && first) {
    process.exit(3);
  }
  if (body.verb === "hang" && first) {
    await new Promise(() => undefined); // a handler that ignores its signal
  }
  if (body.verb === "slow") {
    await delay(body.argument, undefined, { signal });
  }
  console.log(`done ${body.id}`);
}

function setting(name: string): string {
  const value = process.env[name];
  if (value === undefined) {
    throw new Error(`${name} is not set`);
  }
  return value;
}

const stop = new AbortController();
process.once("SIGTERM", () => stop.abort());
process.once("SIGINT", () => stop.abort());

const consumer = new Consumer<Job>({
  url: setting("AMQP_URL"),
  contract: async () => parseContract(await readFile(setting("WARREN_CONTRACT"), "utf8")),
  decode,
  handle,
  concurrency: Number(setting("WARREN_CONCURRENCY")),
  prefetch: Number(setting("WARREN_PREFETCH")),
  drainMilliseconds: Number(setting("WARREN_DRAIN_MILLISECONDS")),
  log: (event, details) => console.error(JSON.stringify({ time: new Date().toISOString(), event, ...details })),
});
await consumer.run(stop.signal);
process.exit(0); // a handler that hangs must not keep the process
