import { randomUUID } from "node:crypto";
import { setMaxListeners } from "node:events";
import { hostname } from "node:os";
import type { Channel, ConsumeMessage, Options as AmqpOptions } from "amqplib";
import { aborted, closeConnection, closeTimeout, limited, openConnection, sleep, within } from "./connection.js";
import { crashLimit, decide, Pause, read, timeLimits, type Contract, type Delivery, type Outcome, type Verb } from "./contract.js";
import { Publisher, Refused } from "./publisher.js";

/** One delivery. There is no ack: how the handler ends decides. */
export interface Message<T> {
  body: T;
  attempt: number;
  maxAttempts: number;
  /** Where the producer published the message. After a retry, the exchange and the routing key of raw are others. */
  originalExchange: string;
  originalRoutingKey: string;
  raw: ConsumeMessage;
}

/**
 * Handles a message. A promise that is rejected is a failure; see Permanent and the others. The signal is aborted when the broker has
 * taken the message back, when the time for it is over, and at the end of a drain.
 */
export type Handler<T> = (message: Message<T>, signal: AbortSignal) => Promise<void>;

/** No attempt can help: the message goes to the dead-letter queue. */
export class Permanent extends Error {}

/** The message failed, and is acknowledged without another attempt. */
export class Discard extends Error {}

/** The message failed, and waits for at least this time if a tier is that long. */
export class RetryAfter extends Error {
  constructor(readonly delayMilliseconds: number, message: string) {
    super(message);
  }
}

/** Delays the message without using an attempt. */
export class Defer extends Error {
  constructor(readonly delayMilliseconds: number) {
    super("deferred");
  }
}

export interface Options<T> {
  url: string;
  /** Loads the contract, at each connect and every 30 s. */
  contract: () => Promise<Contract>;
  decode: (content: Buffer) => T;
  handle: Handler<T>;
  concurrency: number;
  prefetch: number;
  /**
   * How long handlers may take after the signal of run. Keep it 10 s below terminationGracePeriodSeconds: a broker that does not answer
   * takes 6 s more.
   */
  drainMilliseconds: number;
  log: (event: string, details: Record<string, unknown>) => void;
}

/** What settles a delivery. */
type Settlement = Exclude<Verb, "publish">;

/** A delivery, and when it arrived. The consumer timeout begins then. */
interface Arrival {
  message: ConsumeMessage;
  arrived: number;
}

/** One channel. Only this channel can settle its deliveries. */
class Session {
  readonly id = randomUUID();
  readonly began = Date.now();
  readonly waiting: Arrival[] = [];
  readonly working = new Set<Promise<void>>();
  readonly paused = new AbortController(); // aborted when the contract asks for a pause
  private readonly controller = new AbortController();
  draining = false;

  constructor(readonly channel: Channel, public contract: Contract) {
    setMaxListeners(0, this.over); // each handler listens
  }

  /** Is aborted when this session can settle no delivery any more. */
  get over(): AbortSignal {
    return this.controller.signal;
  }

  end(reason: string): void {
    this.controller.abort(new Error(reason));
  }

  settle(message: ConsumeMessage, verb: Settlement): void {
    if (this.over.aborted) {
      return; // the message comes again
    }
    switch (verb) {
      case "ack":
        return this.channel.ack(message);
      case "reject":
        return this.channel.reject(message, false);
      case "requeue": // basic.reject, which RabbitMQ 4.3 counts
        return this.channel.reject(message, true);
      case "return": // basic.nack, which it does not
        return this.channel.nack(message, false, true);
    }
  }
}

export class Consumer<T> {
  private readonly publisher: Publisher;
  private readonly pause = new Pause();
  private session: Session | undefined;
  private readonly working = new Set<Promise<void>>(); // of all sessions: a handler that hangs keeps its slot

  constructor(private readonly options: Options<T>) {
    this.publisher = new Publisher(options.url);
  }

  /** Whether messages come, or will after a pause that Warren asks for. Use it for a readiness probe. */
  get ready(): boolean {
    return this.pause.left(Date.now()) > 0 || (this.session !== undefined && !this.session.over.aborted);
  }

  /** Consumes until the signal is aborted, then finishes what has begun. */
  async run(stop: AbortSignal): Promise<void> {
    const stopped = aborted(stop).then(() => Date.now());
    const watch = setInterval(() => void this.reloadContract(), 30_000);
    const shortest = 250, longest = 10_000;
    for (let pause = shortest; !stop.aborted; pause = Math.min(2 * pause, longest)) {
      try {
        await this.consume(stop);
      } catch (failure) {
        this.options.log("disconnected", { reason: String(failure) });
      }
      if (this.session && Date.now() - this.session.began > pause) { // it lasted longer than the pause before it
        pause = shortest;
      }
      this.session = undefined;
      await sleep(pause * (0.8 + 0.4 * Math.random()), stop);
    }
    clearInterval(watch);
    const left = (await stopped) + this.options.drainMilliseconds - Date.now(); // handlers still run if the connection was lost
    await within(left, Promise.allSettled(this.working), "finish the handlers").catch(() => undefined);
    await this.publisher.close();
  }

  private async reloadContract(): Promise<void> {
    const session = this.session;
    try {
      const contract = await this.load();
      if (session && contract.queue === session.contract.queue) {
        session.contract = contract; // also for the failures of a drain
      }
      if (session && this.pause.left(Date.now()) > 0) {
        session.paused.abort();
      } else if (session && contract.queue !== session.contract.queue) {
        session.end("the contract names another queue");
      }
    } catch (failure) {
      this.options.log("contract not read", { reason: String(failure) }); // the session keeps its contract
    }
  }

  private async load(): Promise<Contract> {
    const contract = await this.options.contract();
    this.pause.note(contract, Date.now());
    return contract;
  }

  /** Loads the contract, again every 5 s while it asks for a pause. */
  private async loadAfterPause(stop: AbortSignal): Promise<Contract> {
    let contract = await this.load();
    for (let left = this.pause.left(Date.now()); left > 0 && !stop.aborted; left = this.pause.left(Date.now())) {
      this.options.log("paused", { milliseconds: left });
      await sleep(Math.min(left, 5_000), stop);
      contract = await this.load().catch(() => contract);
    }
    return contract;
  }

  /** Consumes on one connection, until it is lost, the contract asks for a pause, or stop is aborted. */
  private async consume(stop: AbortSignal): Promise<void> {
    const contract = await this.loadAfterPause(stop);
    if (stop.aborted) {
      return;
    }
    const connection = await openConnection(this.options.url, contract.queue);
    let session: Session | undefined;
    try {
      const channel = await within(10_000, connection.createChannel(), "open a channel");
      session = this.session = new Session(channel, contract);
      const current = session;
      let reason = "the connection was lost";
      channel.on("error", (failure: Error) => { reason = failure.message; });
      channel.on("close", () => current.end(reason));
      await within(10_000, channel.prefetch(this.options.prefetch), "set the prefetch");
      const receive = (message: ConsumeMessage | null): void => {
        if (!message) {
          return current.end("the broker cancelled the consumer"); // the queue was deleted, or a message took too long
        }
        current.waiting.push({ message, arrived: Date.now() });
        this.dispatch();
      };
      // Tells Warren that this consumer pauses when the contract asks for it.
      const options = contract.configMap ? { arguments: { "x-warren-contract": contract.configMap } } : {};
      const { consumerTag } = await within(10_000, channel.consume(contract.queue, receive, options), "consume");
      this.options.log("consuming", { queue: contract.queue });
      await aborted(stop, current.paused.signal, current.over);
      current.over.throwIfAborted();
      await this.drain(current, consumerTag);
    } finally {
      session?.end("the session is over");
      // Both at the same time, because a broker that does not answer uses up both timeouts.
      await Promise.all([closeConnection(connection), stop.aborted ? this.publisher.close() : undefined]);
    }
  }

  /** Starts as many handlers as there are slots. */
  private dispatch(): void {
    const session = this.session;
    while (session && !session.draining && !session.over.aborted && this.working.size < this.options.concurrency) {
      const arrival = session.waiting.shift();
      if (!arrival) {
        return;
      }
      const work = this.process(session, arrival)
        .catch((failure: unknown) => session.end(String(failure)))
        .finally(() => {
          this.working.delete(work);
          session.working.delete(work);
          this.dispatch();
        });
      this.working.add(work);
      session.working.add(work);
    }
  }

  /**
   * Waits for running handlers, cancels, and returns the other deliveries. Without the cancel, RabbitMQ may drop acknowledgements that
   * were sent shortly before the channel closes. Messages that are returned before it would come to this consumer again.
   */
  private async drain(session: Session, consumerTag: string): Promise<void> {
    session.draining = true;
    await Promise.race([Promise.allSettled(session.working), sleep(this.options.drainMilliseconds, session.over)]);
    session.over.throwIfAborted();
    session.end("the time to drain is over");
    if (session.contract.singleActiveConsumer && this.options.prefetch <= 32) { // RabbitMQ does not forget so few acknowledgements
      return; // a cancel would let the next consumer overtake what comes back when the channel closes
    }
    const closed = session.channel.cancel(consumerTag).then(() => {
      session.channel.nackAll(true);
      return session.channel.close();
    });
    await within(closeTimeout, closed, "cancel and close the channel");
  }

  private async process(session: Session, { message, arrived }: Arrival): Promise<void> {
    const limits = timeLimits(session.contract, this.options.prefetch, this.options.concurrency);
    const returnAt = arrived + limits.held;
    if (Date.now() + limits.handler > returnAt) {
      return session.settle(message, "return"); // it comes again at once, with a new consumer timeout
    }
    const delivery: Delivery = {
      exchange: message.fields.exchange, routingKey: message.fields.routingKey, redelivered: message.fields.redelivered,
      headers: message.properties.headers ?? {},
    };
    const outcome = await this.handle(session, message, delivery, limits.handler);
    if (session.over.aborted) {
      return;
    }
    outcome.copyId = `${session.id}-${message.fields.deliveryTag}`;
    const action = decide(session.contract, delivery, outcome);
    if (action.kind) {
      this.options.log("failed", { kind: action.kind, action: action.verb, text: outcome.text, messageId: message.properties.messageId });
    }
    await sleep(action.waitMilliseconds ?? 0, session.over);
    const verb = action.verb === "publish" ? await this.copy(session, message, delivery, outcome, returnAt) : action.verb;
    session.settle(message, verb);
  }

  private async handle(session: Session, message: ConsumeMessage, delivery: Delivery, time: number): Promise<Outcome> {
    const { crashes = 0, ...progress } = read(session.contract, delivery);
    const failure = { time: new Date().toISOString().replace(/\.\d+/, ""), client: `consumer@${hostname()}` };
    if (crashes >= crashLimit) {
      return { result: "crashed", ...failure, text: `${crashes} deliveries ended without a result` };
    }
    let body: T;
    try {
      body = this.options.decode(message.content);
    } catch (cause) {
      return { result: "undecodable", ...failure, text: String(cause) };
    }
    const limit = limited(time, "handle a message", session.over);
    try {
      await this.options.handle({ body, ...progress, maxAttempts: session.contract.maxAttempts, raw: message }, limit.signal);
      return { result: "succeeded" };
    } catch (cause) {
      return { ...outcomeOf(cause, limit.signal), ...failure, text: cause instanceof Error ? cause.message : String(cause) };
    } finally {
      limit.clear();
    }
  }

  /** Publishes a copy until the broker has confirmed it, or the original must be returned. Returns the verb that settles the original. */
  private async copy(
    session: Session, message: ConsumeMessage, delivery: Delivery, outcome: Outcome, returnAt: number,
  ): Promise<Settlement> {
    const { userId, expiration, clusterId, headers, deliveryMode, ...kept } = message.properties;
    const began = Date.now();
    const answerBy = Math.max(returnAt, began + 1_000); // a late failure gets a short time, or else it would use no attempt
    for (let pause = 250; !session.over.aborted; pause = Math.min(2 * pause, 10_000)) {
      const action = decide(session.contract, delivery, outcome); // the contract may have another tier by now
      if (action.verb !== "publish") {
        return action.verb;
      }
      try {
        const options = { ...kept, headers: action.headers } as AmqpOptions.Publish;
        const published = this.publisher.publish(action.route!, message.content, outcome.copyId!, options);
        await within(answerBy - Date.now(), published, "publish a copy", session.over); // an alarm may last longer
        return "ack";
      } catch (failure) {
        this.options.log("copy not taken", { ...action.route, reason: String(failure) });
        // If it is unknown whether the broker has the copy, a rejected message would become a second dead letter.
        if (failure instanceof Refused && action.otherwise && Date.now() - began > 30_000) {
          return action.otherwise;
        }
      }
      if (Date.now() >= returnAt) { // after the first try: a late failure uses its attempt, too
        return "return";
      }
      await sleep(Math.min(pause, returnAt - Date.now()), session.over);
    }
    return "return"; // which has no effect: the session is over
  }
}

function outcomeOf(cause: unknown, signal: AbortSignal): Outcome {
  if (cause instanceof Permanent) {
    return { result: "permanent" };
  }
  if (cause instanceof Discard) {
    return { result: "discarded" };
  }
  if (cause instanceof Defer) {
    return { result: "deferred", delayMilliseconds: cause.delayMilliseconds };
  }
  if (cause instanceof RetryAfter) {
    return { result: "failed", delayMilliseconds: cause.delayMilliseconds };
  }
  return { result: signal.aborted ? "timedOut" : "failed" };
}
