import { hostname } from "node:os";
import type { ConsumeMessage, Options as AmqpOptions } from "amqplib";
import { aborted, closeConnection, closeTimeout, limited, openConnection, sleep, within } from "./connection.js";
import { crashLimit, decide, Pause, read, timeLimits, type Contract, type Delivery, type Outcome } from "./contract.js";
import { Publisher, Refused } from "./publisher.js";
import { deliveryOf, Session, type Arrival, type Settlement } from "./session.js";

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

export class Consumer<T> {
  private readonly publisher: Publisher;
  private readonly pause = new Pause();
  private session: Session | undefined;
  private readonly working = new Set<Promise<void>>(); // of all sessions: a handler that hangs keeps its slot
  private readonly deadlines = new Map<Arrival, number>(); // of the handlers that run, of all sessions

  constructor(private readonly options: Options<T>) {
    this.publisher = new Publisher(options.url);
  }

  /** Whether messages come, or will after a pause that Warren asks for. Use it for a readiness probe. */
  get ready(): boolean {
    return this.live && (this.pause.left(Date.now()) > 0 || (this.session !== undefined && !this.session.over.aborted));
  }

  /** False while every slot has a handler that runs 2 s after its time: only a restart helps. Use it for a liveness probe. */
  get live(): boolean {
    const stuck = [...this.deadlines.values()].filter((deadline) => Date.now() > deadline + 2_000);
    return stuck.length < this.options.concurrency;
  }

  /** Consumes until the signal is aborted, then finishes what has begun. */
  async run(stop: AbortSignal): Promise<void> {
    const stopped = aborted(stop).then(() => Date.now());
    const timers = [setInterval(() => void this.reloadContract(), 30_000), setInterval(() => this.dispatch(), 1_000)];
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
    timers.forEach(clearInterval);
    const left = (await stopped) + this.options.drainMilliseconds - Date.now(); // handlers still run if the connection was lost
    await within(left, Promise.allSettled(this.working), "finish the handlers").catch(() => undefined);
    await this.publisher.close();
  }

  private async reloadContract(): Promise<void> {
    const session = this.session;
    try {
      const contract = await this.load();
      if (!session) {
        return;
      }
      const sameQueue = contract.queue === session.contract.queue;
      if (sameQueue) {
        session.contract = contract; // also for the failures of a drain
      }
      if (this.pause.left(Date.now()) > 0) {
        session.paused.abort();
      } else if (!sameQueue) {
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

  /** Starts as many handlers as there are slots, and returns the messages that have waited too long for a slot. */
  private dispatch(): void {
    const session = this.session;
    while (session && !session.over.aborted) {
      const [arrival] = session.waiting; // the oldest
      if (!arrival) {
        return;
      }
      const limits = timeLimits(session.contract, this.options.prefetch, this.options.concurrency);
      const returnAt = arrival.arrived + limits.held;
      const late = Date.now() + limits.handler > returnAt;
      if (!late && (session.draining || this.working.size >= this.options.concurrency)) {
        return;
      }
      session.waiting.shift();
      if (late) {
        this.report(session, arrival.message, "returned", {});
        session.settle(arrival.message, "return"); // it comes again immediately, with a new consumer timeout
      } else {
        this.start(session, arrival, limits.handler, returnAt);
      }
    }
  }

  /** Handles a message in a slot, until the message is settled and the handler has ended. */
  private start(session: Session, arrival: Arrival, time: number, returnAt: number): void {
    const work = this.process(session, arrival, time, returnAt)
      .catch((failure: unknown) => session.end(String(failure)))
      .then(() => arrival.handler)
      .catch(() => undefined) // process knows the failure
      .finally(() => {
        this.working.delete(work);
        session.working.delete(work);
        this.dispatch();
      });
    this.working.add(work);
    session.working.add(work);
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

  private async process(session: Session, arrival: Arrival, time: number, returnAt: number): Promise<void> {
    const { message } = arrival;
    const delivery = deliveryOf(message);
    const result = await this.handle(session, arrival, delivery, time, returnAt);
    if (session.over.aborted) {
      return;
    }
    const outcome: Outcome = {
      ...result, time: new Date().toISOString().replace(/\.\d+/, ""), client: `consumer@${hostname()}`,
      copyId: `${session.id}-${message.fields.deliveryTag}`,
    };
    const action = decide(session.contract, delivery, outcome);
    if (outcome.result !== "succeeded") {
      const text = outcome.result === "undecodable" ? undefined : outcome.text; // JSON.parse quotes the payload
      const { kind, givenUp } = action;
      this.report(session, message, kind ? "failed" : outcome.result, { kind, action: action.verb, givenUp, text });
    }
    await sleep(Math.min(action.waitMilliseconds ?? 0, returnAt - Date.now()), session.over);
    const verb = action.verb === "publish" ? await this.copy(session, message, delivery, outcome, returnAt) : action.verb;
    session.settle(message, verb);
  }

  /** Logs a message that was not handled with success, without its payload. */
  private report(session: Session, message: ConsumeMessage, event: string, details: Record<string, unknown>): void {
    const { queue, maxAttempts } = session.contract;
    const { attempt, originalRoutingKey: routingKey } = read(session.contract, deliveryOf(message));
    const { messageId, correlationId, type: messageType } = message.properties;
    this.options.log(event, { ...details, queue, routingKey, messageId, correlationId, messageType, attempt, maxAttempts });
  }

  /** Calls the handler. At returnAt, a handler that ignores its signal has timed out, or else RabbitMQ would take its message back. */
  private async handle(session: Session, arrival: Arrival, delivery: Delivery, time: number, returnAt: number): Promise<Outcome> {
    const { crashes = 0, ...progress } = read(session.contract, delivery);
    if (crashes >= crashLimit) {
      return { result: "crashed", text: `${crashes} deliveries ended without a result` };
    }
    const raw = arrival.message;
    let body: T;
    try {
      body = this.options.decode(raw.content);
    } catch (cause) {
      return { result: "undecodable", text: String(cause) };
    }
    const limit = limited(time, "handle a message", session.over);
    const given = { body, ...progress, maxAttempts: session.contract.maxAttempts, raw };
    const call = async (): Promise<void> => this.options.handle(given, limit.signal); // async: a handler may throw before its promise
    this.deadlines.set(arrival, Date.now() + time);
    arrival.handler = call().finally(() => {
      this.deadlines.delete(arrival);
      limit.clear();
    });
    try {
      await within(returnAt - Date.now(), arrival.handler, "end a handler that ignores its signal", session.over);
      return { result: "succeeded" };
    } catch (cause) {
      return { ...outcomeOf(cause, limit.signal), text: cause instanceof Error ? cause.message : String(cause) };
    }
  }

  /** Publishes a copy until the broker has confirmed it, or the original must be returned. Returns the verb that settles the original. */
  private async copy(
    session: Session, message: ConsumeMessage, delivery: Delivery, outcome: Outcome, returnAt: number,
  ): Promise<Settlement> {
    const { userId, expiration, clusterId, headers, deliveryMode, ...kept } = message.properties;
    const began = Date.now();
    const { held } = timeLimits(session.contract, this.options.prefetch, this.options.concurrency);
    const answerBy = Math.max(returnAt, began + held / 40); // a late failure gets a short time, or else it would use no attempt
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
