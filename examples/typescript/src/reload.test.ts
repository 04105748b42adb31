import assert from "node:assert/strict";
import { test } from "node:test";
import type { Contract } from "./contract.js";
import { names, short, type Frame } from "./testbroker.js";
import { consume, pass } from "./testconsumer.js";

const second = 1_000;

/** A contract with a tier for failures, which asks for a pause until so many seconds after the begin of the test. */
function contractWith(tier: string, until?: number): Contract {
  const tiers = [{ exchange: tier, routingKey: "", delayMilliseconds: second }];
  const paused = until && { paused: { id: "a", until: new Date(until * second).toISOString() } };
  return { queue: "orders", strategy: "Publish", maxAttempts: 3, tiers, ...paused } as unknown as Contract;
}

test("a consumer is not ready after a pause whose contract cannot be read again", { timeout: 20 * second }, async () => {
  const contracts = [contractWith("wait"), contractWith("wait", 90)];
  await consume({ contracts }, async (consumer, logged) => {
    await pass(() => logged("consuming"), 0);
    assert.equal(consumer.ready, true);
    await pass(() => logged("disconnected"));
    assert.equal(consumer.ready, true, "during the pause");
    await pass(() => Date.now() >= 89 * second);
    assert.equal(consumer.ready, true, "at the end of the pause");
    await pass(() => Date.now() >= 90 * second);
    assert.equal(consumer.ready, false, "after the pause");
  });
});

for (const { name, until } of [{ name: "a contract" }, { name: "a contract that asks for a pause", until: 90 }]) {
  test(`${name} that is read while a handler runs decides its failure`, { timeout: 20 * second }, async () => {
    let fail = (): void => undefined;
    const failing = new Promise<void>((resolve) => { fail = resolve; });
    let started = false, copy = "";
    const handle = async (): Promise<void> => {
      started = true;
      await failing;
      throw new Error("failed");
    };
    const receive = ({ name: called, payload }: Frame): void => {
      copy = called === names.publish ? payload : copy;
    };
    const contracts = [contractWith("wait"), contractWith("later", until)];
    await consume({ contracts, handle, receive }, async () => {
      await pass(() => started, 0);
      await pass(() => Date.now() >= 31 * second); // the contract is read every 30 s
      fail();
      await pass(() => copy !== "");
      assert.ok(copy.startsWith(`${names.publish}0000${short("later")}`), copy);
    });
  });
}
