import { randomUUID } from "node:crypto";
import { setMaxListeners } from "node:events";
import type { Channel, ConsumeMessage } from "amqplib";
import type { Contract, Delivery, Verb } from "./contract.js";

/** What settles a delivery. */
export type Settlement = Exclude<Verb, "publish">;

/** A delivery, and when it arrived. The consumer timeout begins then. */
export interface Arrival {
  message: ConsumeMessage;
  arrived: number;
  /** The handler, once it has begun. It may still run after its message was settled. */
  handler?: Promise<void>;
}

/** One channel. Only this channel can settle its deliveries. */
export class Session {
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
    try {
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
    } catch (failure) {
      this.end(String(failure)); // the connection is closing
    }
  }
}

/** A message as the decisions need it. */
export function deliveryOf({ fields, properties }: ConsumeMessage): Delivery {
  const { exchange, routingKey, redelivered } = fields;
  return { exchange, routingKey, redelivered, headers: properties.headers ?? {} };
}
