import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";

/** Types of frames. */
export const method = "01", header = "02";

/** The names of methods, and of the header of a message: the first bytes of a frame, in hexadecimal. */
export const names = {
  startOk: "000a000b", openConnection: "000a0028", closeConnection: "000a0032", openChannel: "0014000a", closeChannel: "00140028",
  qos: "003c000a", consume: "003c0014", cancel: "003c001e", publish: "003c0028", contentHeader: "003c0000", ack: "003c0050",
  reject: "003c005a", nack: "003c0078", confirmSelect: "0055000a",
};

const start = "000a000a000900000000" + "00000005504c41494e" + "00000005656e5f5553"; // connection.start with PLAIN and en_US

/** The frames with which a broker answers a method: the types and the payloads, in hexadecimal. */
export type Answers = Record<string, [type: string, payload: string][]>;

/** What a message has: its properties after their flags, both in hexadecimal. */
export interface Content {
  routingKey?: string;
  properties?: string;
  body?: string;
}

/** The frames of a message. */
export function delivery(tag: number, { routingKey = "", properties = "0000", body = "" }: Content = {}): Answers[string] {
  return [
    [method, `003c003c0174${long(tag)}0000${short(routingKey)}`],
    [header, `${names.contentHeader}${long(body.length)}${properties}`],
    ...(body ? [["03", Buffer.from(body).toString("hex")] as Answers[string][number]] : []),
  ];
}

/** What a program needs to publish, and to consume so many messages. */
export function consuming(messages: number, content?: Content): Answers {
  const deliveries = Array.from({ length: messages }, (_, index) => delivery(index + 1, content));
  return {
    [names.startOk]: [[method, "000a001e0000000200000000"]], // connection.tune
    [names.openConnection]: [[method, "000a002900"]],
    [names.openChannel]: [[method, "0014000b00000000"]],
    [names.qos]: [[method, "003c000b"]],
    [names.consume]: [[method, "003c00150174"], ...deliveries.flat()],
    [names.confirmSelect]: [[method, "0055000b"]],
  };
}

/** What a program needs to end without a timeout. */
export const closing: Answers = {
  [names.cancel]: [[method, "003c001f0174"]],
  [names.closeChannel]: [[method, "00140029"]],
  [names.closeConnection]: [[method, "000a0033"]],
};

/** A frame from the program. */
export interface Frame {
  name: string;
  payload: string;
  socket: Socket;
  /** Sends a frame on the same channel. */
  send: (type: string, payload: string) => void;
}

/** An integer of 8 bytes. */
export function long(value: number): string {
  return value.toString(16).padStart(16, "0");
}

/** A text with a length of one byte. */
export function short(text: string): string {
  return text.length.toString(16).padStart(2, "0") + Buffer.from(text).toString("hex");
}

/** A broker that answers only what it is told to. */
export class TestBroker {
  private readonly server = createServer({ noDelay: true }, (socket) => this.serve(socket));

  constructor(private readonly answers: Answers, private readonly receive: (frame: Frame) => void) {}

  /** Returns the URL of the broker. Without heartbeats, a test can mock the time. */
  async listen(): Promise<string> {
    await once(this.server.listen(0, "127.0.0.1"), "listening");
    return `amqp://guest:guest@127.0.0.1:${(this.server.address() as AddressInfo).port}?heartbeat=0`;
  }

  close(): void {
    this.server.close();
  }

  private serve(socket: Socket): void {
    const send = (channel: string, type: string, payload: string): void => {
      socket.write(`${type}${channel}${(payload.length / 2).toString(16).padStart(8, "0")}${payload}ce`, "hex");
    };
    let received = "";
    socket.on("error", () => undefined); // the program may destroy the connection
    socket.on("data", (data) => {
      received += data.toString("hex");
      if (received.startsWith("414d5150")) { // AMQP
        received = received.slice(16);
        send("0000", method, start);
      }
      for (;;) {
        const [, channel, size] = /^..(.{4})(.{8})/.exec(received) ?? [];
        const end = 14 + 2 * parseInt(size ?? "", 16) + 2;
        if (!channel || received.length < end) {
          return;
        }
        const payload = received.slice(14, end - 2);
        received = received.slice(end);
        const name = payload.slice(0, 8);
        this.answers[name]?.forEach(([type, answer]) => send(channel, type, answer));
        this.receive({ name, payload, socket, send: (type, answer) => send(channel, type, answer) });
      }
    });
  }
}
