import type { ChannelModel, ConfirmChannel, Options } from "amqplib";
import type { Route } from "./contract.js";
import { Alarm, closeConnection, closeTimeout, Late, openConnection, within } from "./connection.js";

const confirmTimeout = 30_000;

/** The broker does not have the message. */
export class Refused extends Error {}

/** A connection. It can be closed more than once. */
interface Link {
  connection: ChannelModel;
  alarm: Alarm;
  close: () => Promise<void>;
}

/** A confirm channel, with what the broker has returned on it. */
interface Line {
  link: Link;
  channel: ConfirmChannel;
  returned: Map<string, string>;
  reason?: Error;
}

/**
 * Publishes copies, on a connection of its own: RabbitMQ can block a connection that publishes, and acknowledgements must go on then.
 * A channel that the broker closes is replaced at the next publish.
 */
export class Publisher {
  private link: Promise<Link> | undefined;
  private line: Promise<Line> | undefined;

  constructor(private readonly url: string) {}

  /**
   * Resolves when the broker has confirmed a message and has not returned it. Otherwise the promise is rejected. Unless the reason is
   * Refused, it is unknown whether the broker has the message: publish it again with the same copyId. While the broker has an alarm, the
   * promise is pending: on another connection, the message would be published twice.
   */
  async publish(route: Route, content: Buffer, copyId: string, options: Options.Publish): Promise<void> {
    const line = await this.open();
    const confirmed = new Promise<void>((resolve, reject) => {
      const headers = { ...options.headers, "x-copy-id": copyId }; // a returned message has its headers
      const all = { ...options, headers, mandatory: true, persistent: true };
      line.channel.publish(route.exchange, route.routingKey, content, all, (failure) => {
        // amqplib emits "return" before it calls back for the confirm of the same message.
        const reply = line.returned.get(copyId);
        line.returned.delete(copyId);
        if (reply !== undefined) {
          reject(new Refused(`the broker returned the copy: ${reply}`));
        } else if (failure?.message === "message nacked") { // amqplib has no other sign of a negative confirm
          reject(new Refused("the broker refused the copy: the queue may be full"));
        } else if (failure) {
          const reason = line.reason ?? failure;
          reject(isAbout(reason, route, content) ? new Refused(reason.message) : reason);
        } else {
          resolve();
        }
      });
    });
    try {
      await line.link.alarm.within(confirmTimeout, confirmed, "confirm of a copy");
    } catch (failure) {
      if (failure instanceof Late) {
        await line.link.close(); // so that no other channel is open when the message is published again
      }
      throw failure;
    }
  }

  /** Closes the connection. If it is still being opened after 3 s, it is closed later. */
  async close(): Promise<void> {
    const closed = this.link?.then((link) => link.close());
    this.link = this.line = undefined; // so that the next call has nothing to close
    await within(closeTimeout, Promise.resolve(closed), "close the connection of the publisher").catch(() => undefined);
  }

  /** Opens the channel that concurrent publishes share. */
  private open(): Promise<Line> {
    this.line ??= this.openLine().catch((failure: unknown) => {
      this.line = undefined;
      throw failure;
    });
    return this.line;
  }

  private connect(): Promise<Link> {
    const opening = openConnection(this.url, "copies").then((connection): Link => {
      let closing: Promise<void> | undefined;
      const close = (): Promise<void> => {
        forget();
        return (closing ??= closeConnection(connection));
      };
      connection.once("close", forget);
      return { connection, alarm: new Alarm(connection), close };
    });
    const forget = (): void => {
      if (this.link === opening) {
        this.link = this.line = undefined;
      }
    };
    opening.catch(forget);
    return opening;
  }

  private async openLine(): Promise<Line> {
    const link = await (this.link ??= this.connect());
    let channel: ConfirmChannel;
    try {
      channel = await link.alarm.within(10_000, link.connection.createConfirmChannel(), "open a channel");
    } catch (failure) {
      await link.close();
      throw failure;
    }
    const line: Line = { link, channel, returned: new Map() };
    channel.on("return", (message) => {
      line.returned.set(String(message.properties.headers?.["x-copy-id"]), String((message.fields as { replyText?: string }).replyText));
    });
    channel.on("error", (reason: Error) => {
      line.reason = reason; // a missing exchange or permission; "close" follows
    });
    const opened = this.line;
    channel.once("close", () => {
      if (this.line === opened) {
        this.line = undefined;
      }
    });
    return line;
  }
}

/** Says whether the broker closed a channel because of this message. Other messages of the channel may have arrived. */
function isAbout(reason: Error & { code?: number }, { exchange }: Route, content: Buffer): boolean {
  switch (reason.code) {
    case 403:
    case 404:
      return reason.message.includes(`exchange '${exchange || "amq.default"}'`);
    case 406:
      return reason.message.includes(`message size ${content.length} is larger`);
    default:
      return false;
  }
}
