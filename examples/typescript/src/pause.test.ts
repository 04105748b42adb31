import assert from "node:assert/strict";
import { test } from "node:test";
import { Pause, type Contract } from "./contract.js";

const minute = 60_000;
const begin = Date.parse("2026-11-26T12:00:00Z");

/** A contract that asks for a pause until so many minutes after begin. */
function paused(id: string, minutes: number): Contract {
  return { paused: { id, until: new Date(begin + minutes * minute).toISOString() } } as Contract;
}

const running = {} as Contract;

const cases: { name: string; read: [Contract, number][]; at: number; left: number }[] = [
  { name: "a contract without a pause", read: [[running, 0]], at: 0, left: 0 },
  { name: "a pause lasts until its end", read: [[paused("a", 5), 0]], at: 2, left: 3 },
  { name: "it is over afterwards", read: [[paused("a", 5), 0]], at: 6, left: -1 },
  { name: "it is over when it is removed", read: [[paused("a", 5), 0], [running, 1]], at: 1, left: 0 },
  { name: "it lasts for ten minutes at most", read: [[paused("a", 60), 0]], at: 4, left: 6 },
  { name: "the ten minutes begin when its ID is seen first", read: [[paused("a", 60), 0], [paused("a", 60), 9]], at: 9, left: 1 },
  { name: "another ID is another pause", read: [[paused("a", 60), 0], [paused("b", 60), 9]], at: 9, left: 10 },
];

for (const { name, read, at, left } of cases) {
  test(name, () => {
    const pause = new Pause();
    read.forEach(([contract, minutes]) => pause.note(contract, begin + minutes * minute));
    assert.equal(pause.left(begin + at * minute), left * minute);
  });
}
