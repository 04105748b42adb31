import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { decide, parseContract, read, type Action, type Contract, type Delivery, type Outcome, type Progress } from "./contract.js";

interface Vector {
  name: string;
  contract: Contract;
  delivery: Delivery;
  outcome: Outcome;
  progress: Progress;
  action: Action;
}

const folder = new URL("../../../consumer/contract/vectors/", import.meta.url);

for (const file of readdirSync(folder).filter((name) => name.endsWith(".json"))) {
  for (const vector of JSON.parse(readFileSync(new URL(file, folder), "utf8")) as Vector[]) {
    test(`${file}: ${vector.name}`, () => {
      const contract = parseContract(JSON.stringify(vector.contract));
      assert.deepEqual(read(contract, vector.delivery), vector.progress);
      assert.deepEqual(decide(contract, vector.delivery, vector.outcome), vector.action);
    });
  }
}
