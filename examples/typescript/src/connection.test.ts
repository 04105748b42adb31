import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { mock, test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { aborted, Late, limited, within } from "./connection.js";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

/** Asserts that nothing waits: a timer would keep the process running, and listeners would collect at a signal that lives long. */
function nothingWaits(signal: AbortSignal): void {
  assert.deepEqual(getEventListeners(signal, "abort"), []);
  assert.ok(!process.getActiveResourcesInfo().includes("Timeout"));
}

const never = new Promise<never>(() => undefined);
const lost = new Error("the connection was lost");

test("a limit that is cleared does not end", () => {
  const other = new AbortController();
  const limit = limited(60_000, "work", other.signal);
  limit.clear();
  nothingWaits(other.signal);
  other.abort();
  assert.equal(limit.signal.aborted, false);
});

test("a limit ends after its time", async () => {
  const other = new AbortController();
  const limit = limited(1.5, "work", other.signal);
  await aborted(limit.signal);
  assert.deepEqual(limit.signal.reason, new Late("work: not done within 1.5 ms"));
  nothingWaits(other.signal);
});

test("a limit ends after its time, although nothing else refers to it when garbage is collected", async () => {
  setImmediate(collectGarbage);
  await aborted(limited(50, "work", new AbortController().signal).signal);
});

test("a limit ends with another signal, for the same reason", () => {
  const other = new AbortController();
  const limit = limited(60_000, "work", other.signal);
  other.abort(lost);
  assert.equal(limit.signal.reason, lost);
  nothingWaits(other.signal);
});

test("a limit ends at once if the other signal is aborted already", () => {
  const other = AbortSignal.abort(lost);
  assert.equal(limited(60_000, "work", other).signal.reason, lost);
  nothingWaits(other);
});

test("a limit beyond the longest timer is the longest timer", () => {
  const timer = mock.method(globalThis, "setTimeout");
  limited(2 ** 31, "work").clear();
  assert.equal(timer.mock.calls[0]?.arguments[1], 2 ** 31 - 1);
  timer.mock.restore();
});

test("an answer in time is returned", async () => {
  const other = new AbortController();
  assert.equal(await within(60_000, Promise.resolve("answer"), "ask", other.signal), "answer");
  nothingWaits(other.signal);
});

test("an answer that does not come is late", async () => {
  const other = new AbortController();
  await assert.rejects(within(1, never, "ask", other.signal), new Late("ask: not done within 1 ms"));
  nothingWaits(other.signal);
});

test("an answer that is not needed any more is not late", async () => {
  const other = new AbortController();
  const answer = within(60_000, never, "ask", other.signal);
  other.abort(lost);
  await assert.rejects(answer, lost);
  nothingWaits(other.signal);
});

test("the first of several signals ends the wait", async () => {
  const [first, second] = [new AbortController(), new AbortController()];
  const ended = aborted(first.signal, second.signal);
  second.abort();
  await ended;
  nothingWaits(first.signal);
});
