import assert from "node:assert/strict";
import { test } from "node:test";
import { timeLimits, type Contract } from "./contract.js";

const minute = 60_000;

const cases: { name: string; timeout?: number; prefetch: number; concurrency: number; handler: number }[] = [
  { name: "one wave", prefetch: 10, concurrency: 10, handler: 24 },
  { name: "two waves", prefetch: 20, concurrency: 10, handler: 12 },
  { name: "a part of a wave", prefetch: 11, concurrency: 10, handler: 12 },
  { name: "a timeout in the contract", timeout: 10, prefetch: 20, concurrency: 10, handler: 4 },
];

for (const { name, timeout, prefetch, concurrency, handler } of cases) {
  test(name, () => {
    const contract = (timeout ? { consumerTimeoutMilliseconds: timeout * minute } : {}) as Contract;
    const limits = timeLimits(contract, prefetch, concurrency);
    assert.equal(limits.handler, handler * minute);
    assert.equal(limits.held, 0.95 * (timeout ?? 30) * minute);
    assert.ok(Math.ceil(prefetch / concurrency) * limits.handler < limits.held);
  });
}
