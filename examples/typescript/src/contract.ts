// What a consumer of a ConsumerQueue has to do after each message. Pure: no broker, no clock. The vectors in
// consumer/contract/vectors test it.

export type Strategy = "Publish" | "Reject" | "Requeue" | "None";

export interface Route {
  exchange: string;
  routingKey: string;
}

export interface Tier extends Route {
  delayMilliseconds: number;
}

/** The document that Warren writes; see consumer/contract/contract.schema.json. */
export interface Contract {
  apiVersion: string;
  queue: string;
  virtualHost: string;
  strategy: Strategy;
  maxAttempts: number;
  tiers?: Tier[];
  park?: Route;
  deadLetterQueue?: string;
  rejectDeadLetters: boolean;
  singleActiveConsumer: boolean;
  consumerTimeoutMilliseconds?: number;
  redeliveryDelay?: { minMilliseconds: number; maxMilliseconds: number };
  /** The ConfigMap that Warren writes the contract to; absent in a contract from another source. */
  configMap?: string;
  /** Asks the consumers to consume nothing until a time in RFC 3339. */
  paused?: { id: string; until: string };
}

export type Headers = Record<string, unknown>;

/** A message as the broker delivers it. */
export interface Delivery {
  exchange: string;
  routingKey: string;
  redelivered?: boolean;
  headers?: Headers;
}

export type Result =
  | "succeeded" | "failed" | "panicked" | "timedOut" | "permanent" | "undecodable" | "crashed" | "deferred" | "discarded" | "returned";

/** How handling a message ended. */
export interface Outcome {
  result: Result;
  delayMilliseconds?: number;
  text?: string;
  time?: string;
  client?: string;
  copyId?: string;
}

export type Verb = "ack" | "reject" | "requeue" | "return" | "publish";

export interface Action {
  verb: Verb;
  kind?: string;
  givenUp?: true;
  waitMilliseconds?: number;
  route?: Route;
  headers?: Headers;
  otherwise?: Exclude<Verb, "publish">;
}

export interface Progress {
  attempt: number;
  crashes?: number;
  originalExchange: string;
  originalRoutingKey: string;
}

/** After this many deliveries without a result, the consumer does not handle the message: it may end the process each time. */
export const crashLimit = 20;

const apiVersion = "contract.warren.dev/v1";

/** Reads a contract. Validate it by the JSON Schema in your tests; here only what must stop a consumer is checked. */
export function parseContract(text: string): Contract {
  const contract = JSON.parse(text) as Contract;
  if (contract.apiVersion !== apiVersion) {
    throw new Error(`contract: apiVersion is ${contract.apiVersion}, and this program knows ${apiVersion}`);
  }
  if (!["Publish", "Reject", "Requeue", "None"].includes(contract.strategy)) {
    throw new Error(`contract: this program does not know the strategy ${contract.strategy}`);
  }
  if (contract.strategy === "Publish" && !contract.tiers?.length) {
    throw new Error("contract: tiers are missing");
  }
  return contract;
}

/** The pause that the contract asks for. Pass the contract to note each time you read it. */
export class Pause {
  private static readonly longest = 10 * 60_000;
  private asked: Contract["paused"];
  private id = "";
  private ends = 0;

  note(contract: Contract, now: number): void {
    this.asked = contract.paused;
    if (this.asked && this.asked.id !== this.id) {
      this.id = this.asked.id;
      this.ends = now + Pause.longest; // the clock of Warren may be ahead
    }
  }

  /** How many milliseconds the consumer must still pause; 0 or less if it may consume. */
  left(now: number): number {
    return this.asked ? Math.min(Date.parse(this.asked.until), this.ends) - now : 0;
  }
}

/**
 * Returns for how many milliseconds a handler may run, and for how long a message may be held unsettled. At the consumer timeout,
 * RabbitMQ takes back all messages of the channel. Prefetched messages wait for a handler first.
 */
export function timeLimits(contract: Contract, prefetch: number, concurrency: number): { handler: number; held: number } {
  const timeout = contract.consumerTimeoutMilliseconds ?? 30 * 60_000;
  return { handler: (0.8 * timeout) / Math.ceil(prefetch / concurrency), held: 0.95 * timeout };
}

/** Returns the attempt of a message, and its original route. */
export function read(contract: Contract, delivery: Delivery): Progress {
  const headers = delivery.headers ?? {};
  const retries = failedElsewhere(contract, headers) ? 0 : count(headers["x-retry-count"]);
  const rejected = rejectedIn(headers, contract.queue);
  const rejects = rejected?.count ?? 0;
  // A client can send the header, and then it is in the first delivery.
  const deliveries = delivery.redelivered ? count(headers["x-delivery-count"]) : 0;
  const attempts = { Publish: retries, Reject: retries + rejects, Requeue: retries + deliveries, None: 0 };
  const crashes = contract.strategy === "Requeue" ? 0 : Math.max(0, deliveries - rejects);
  const original = (contract.strategy === "Reject" && rejected?.published) || delivery;
  return {
    attempt: 1 + attempts[contract.strategy],
    ...(crashes > 0 && { crashes }),
    originalExchange: text(headers["x-original-exchange"]) ?? original.exchange,
    originalRoutingKey: text(headers["x-original-routing-key"]) ?? original.routingKey,
  };
}

/** Returns what to do with a message after an outcome. */
export function decide(contract: Contract, delivery: Delivery, outcome: Outcome): Action {
  switch (outcome.result) {
    case "succeeded":
    case "discarded":
      return { verb: "ack" };
    case "returned":
      return { verb: "return" };
    case "deferred":
      return defer(contract, delivery, outcome);
    case "permanent":
    case "undecodable":
    case "crashed":
      return giveUp(contract, delivery, outcome, outcome.result);
    case "panicked":
      return fail(contract, delivery, outcome, "panic");
    case "timedOut":
      return fail(contract, delivery, outcome, "timeout");
    case "failed":
      return fail(contract, delivery, outcome, "failed");
  }
}

function fail(contract: Contract, delivery: Delivery, outcome: Outcome, kind: string): Action {
  const { attempt } = read(contract, delivery);
  if (contract.strategy === "Requeue") {
    // The broker counts, and gives up at its delivery limit.
    const wait = contract.redeliveryDelay ? 0 : Math.min(5000, 100 * attempt);
    return {
      verb: "requeue", kind,
      ...(wait > 0 && { waitMilliseconds: wait }),
      ...(attempt >= contract.maxAttempts && { givenUp: true }),
    };
  }
  const attempts = contract.strategy === "None" ? 1 : contract.maxAttempts;
  if (attempt >= attempts) {
    return giveUp(contract, delivery, outcome, "exhausted");
  }
  if (contract.strategy === "Reject") {
    return { verb: "reject", kind };
  }
  const tiers = contract.tiers ?? [];
  const tier = outcome.delayMilliseconds ? tierFor(tiers, outcome.delayMilliseconds) : tiers[Math.min(attempt, tiers.length) - 1]!;
  return {
    verb: "publish", kind, route: routeOf(tier),
    headers: failedCopyHeaders(contract, delivery, outcome, attempt, kind),
  };
}

function giveUp(contract: Contract, delivery: Delivery, outcome: Outcome, kind: string): Action {
  if (contract.strategy === "Requeue" && kind !== "crashed" && contract.rejectDeadLetters) {
    return { verb: "reject", kind, givenUp: true };
  }
  if (!contract.park) {
    return { verb: "ack", kind, givenUp: true };
  }
  const { attempt } = read(contract, delivery);
  const failed = kind === "undecodable" || kind === "crashed" ? attempt - 1 : attempt; // those were not handled
  return {
    verb: "publish", kind, givenUp: true, route: routeOf(contract.park),
    headers: failedCopyHeaders(contract, delivery, outcome, failed, kind),
    // Under Reject a rejected message waits in the tier, and is handled again when it comes back.
    ...((contract.rejectDeadLetters || contract.strategy === "Reject") && { otherwise: "reject" as const }),
  };
}

function defer(contract: Contract, delivery: Delivery, outcome: Outcome): Action {
  const delay = Math.max(0, outcome.delayMilliseconds ?? 0);
  if (!contract.tiers?.length) {
    const wait = Math.min(delay, 30_000);
    return { verb: "return", ...(wait > 0 && { waitMilliseconds: wait }) };
  }
  const headers = copyHeaders(contract, delivery, outcome, read(contract, delivery).attempt - 1);
  headers["x-defer-count"] = count(delivery.headers?.["x-defer-count"]) + 1;
  return { verb: "publish", route: routeOf(tierFor(contract.tiers, delay)), headers };
}

/** The tier with the shortest delay that is long enough, or else the longest. */
function tierFor(tiers: Tier[], delay: number): Tier {
  const rising = tiers.toSorted((a, b) => a.delayMilliseconds - b.delayMilliseconds);
  return rising.find((tier) => tier.delayMilliseconds >= delay) ?? rising.at(-1)!;
}

function routeOf({ exchange, routingKey }: Route): Route {
  return { exchange, routingKey };
}

// CC and BCC would route the copy again. The other headers are the broker's own counts.
const leftOut = /^(CC|BCC|x-death|x-delivery-count|x-acquired-count|x-(first|last)-death-.*)$/;

const aboutFailure = /^x-failure-(kind|message|time|queue|client)$/;

/** Says whether the last failure of a message was in another queue. */
function failedElsewhere(contract: Contract, headers: Headers): boolean {
  const queue = text(headers["x-failure-queue"]) ?? "";
  return queue !== "" && queue !== contract.queue;
}

/** The headers of a copy after a failure, without those of an earlier failure: the new failure may have fewer of them. */
function failedCopyHeaders(contract: Contract, delivery: Delivery, outcome: Outcome, failed: number, kind: string): Headers {
  const kept = Object.entries(copyHeaders(contract, delivery, outcome, failed)).filter(([name]) => !aboutFailure.test(name));
  return { ...Object.fromEntries(kept), ...failureHeaders(contract, outcome, kind) };
}

/** The headers of a copy. With the headers of a failure in another queue, x-retry-count would belong to that queue. */
function copyHeaders(contract: Contract, delivery: Delivery, outcome: Outcome, failed: number): Headers {
  const progress = read(contract, delivery);
  const headers = delivery.headers ?? {};
  const foreign = failedElsewhere(contract, headers);
  const kept = Object.entries(headers).filter(([name]) => !leftOut.test(name) && !(foreign && aboutFailure.test(name)));
  return {
    ...Object.fromEntries(kept),
    "x-retry-count": failed,
    "x-original-exchange": progress.originalExchange,
    "x-original-routing-key": progress.originalRoutingKey,
    ...(outcome.copyId && { "x-copy-id": outcome.copyId }),
  };
}

function failureHeaders(contract: Contract, outcome: Outcome, kind: string): Headers {
  const message = cut(outcome.text ?? "", 1024);
  return {
    "x-failure-kind": kind,
    "x-failure-queue": contract.queue,
    ...(message && { "x-failure-message": message }),
    ...(outcome.time && { "x-failure-time": outcome.time }),
    ...(outcome.client && { "x-failure-client": outcome.client }),
  };
}

/** Cuts a text to so many bytes of UTF-8, between two characters. */
function cut(message: string, limit: number): string {
  const bytes = Buffer.from(message);
  let end = Math.min(limit, bytes.length);
  while (end < bytes.length && end > 0 && (bytes[end]! & 0xc0) === 0x80) {
    end--;
  }
  return bytes.toString("utf8", 0, end);
}

/** Reads a count from a header, which any publisher can set. A value that is not a whole number from 0 to 2147483647 counts as 0. */
function count(value: unknown): number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= 2 ** 31 - 1 ? value : 0;
}

function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** Finds how often a message was rejected in a queue, and where the message had come from, if both exchange and routing key are there. */
function rejectedIn(headers: Headers, queue: string): { count: number; published?: Route } | undefined {
  const deaths = Array.isArray(headers["x-death"]) ? (headers["x-death"] as unknown[]) : [];
  for (const death of deaths) {
    if (typeof death !== "object" || death === null) {
      continue;
    }
    const entry = death as Headers;
    if (entry["queue"] === queue && entry["reason"] === "rejected") {
      const keys = Array.isArray(entry["routing-keys"]) ? (entry["routing-keys"] as unknown[]) : [];
      const exchange = text(entry["exchange"]);
      const routingKey = text(keys[0]);
      const published = exchange !== undefined && routingKey !== undefined ? { exchange, routingKey } : undefined;
      return { count: count(entry["count"]), ...(published && { published }) };
    }
  }
  return undefined;
}
