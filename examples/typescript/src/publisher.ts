import type { ChannelModel, ConfirmChannel, Options } from "amqplib";
import type { Route } from "./contract.js";
import { closeConnection, Late, openConnection, within } from "./connection.js";

const confirmTimeout = 30_000;

/** A confirm channel, with what the broker has returned on it. */
interface Line {
  channel: ConfirmChannel;
  returned: Map<string, string>;
  reason?: Error;
}

/**
 * Publishes copies, on a connection of its own: RabbitMQ can block a connection that publishes, and acknowledgements must go on then.
 * A channel that the broker closes is replaced at the next publish.
 */
export class Publisher {
  private connection: Promise<ChannelModel> | undefined;
  private line: Promise<Line> | undefined;

  constructor(private readonly url: string) {}

  /**
   * Resolves when the broker has confirmed a message and has not returned it. Otherwise the promise is rejected, and it may be unknown
   * whether the broker has the message: publish it again with the same copyId.
   */
  async publish(route: Route, content: Buffer, copyId: string, options: Options.Publish): Promise<void> {
    const line = await this.open();
    const confirmed = new Promise<void>((resolve, reject) => {
      line.channel.publish(route.exchange, route.routingKey, content, { ...options, mandatory: true, persistent: true }, (failure) => {
        // amqplib emits "return" before it calls back for the confirm of the same message.
        const reply = line.returned.get(copyId);
        line.returned.delete(copyId);
        if (reply !== undefined) {
          reject(new Error(`the broker returned the copy: ${reply}`));
        } else if (failure) {
          reject(line.reason ?? failure);
        } else {
          resolve();
        }
      });
    });
    try {
      await within(confirmTimeout, confirmed, "confirm of a copy");
    } catch (failure) {
      confirmed.catch(() => undefined);
      if (failure instanceof Late) {
        await this.close(); // a channel that confirms nothing is of no use
      }
      throw failure;
    }
  }

  async close(): Promise<void> {
    const connection = await this.connection?.catch(() => undefined);
    this.connection = this.line = undefined;
    if (connection) {
      await closeConnection(connection);
    }
  }

  /** All who publish at the same time wait for the same channel. */
  private open(): Promise<Line> {
    this.line ??= this.openLine().catch((failure: unknown) => {
      this.line = undefined;
      throw failure;
    });
    return this.line;
  }

  private async openLine(): Promise<Line> {
    this.connection ??= openConnection(this.url, "copies").catch((failure: unknown) => {
      this.connection = undefined;
      throw failure;
    });
    const opening = this.connection;
    const connection = await opening;
    connection.once("close", () => {
      if (this.connection === opening) {
        this.connection = this.line = undefined;
      }
    });
    const channel = await within(10_000, connection.createConfirmChannel(), "open a channel");
    const line: Line = { channel, returned: new Map() };
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
