// Lints docs/openapi.json, generates a client's types from it, compiles client.ts with these types, and runs the client against tablesweep local.
// Argument: the program.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { createConfig, lint } from "@redocly/openapi-core";
import openapiTS, { astToString } from "openapi-typescript";

const [program] = process.argv.slice(2);
const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const document = here("../../docs/openapi.json");

const config = await createConfig({
  extends: ["recommended"],
  rules: {
    "operation-4xx-response": "off", // 4XX stands for all of 400 to 499
    "no-server-example.com": "off", // the second server is the reader's own machine
    "no-ambiguous-paths": "off", // an id has 64 hex digits, so it is not a catalog's name
  },
});
const found = await lint({ ref: document, config });
assert.deepEqual(found.map((p) => `${p.ruleId}: ${p.message} ${p.location[0].pointer}`), []);

writeFileSync(here("schema.ts"), astToString(await openapiTS(new URL(`file://${document}`))));
execFileSync(process.execPath, [here("node_modules/typescript/bin/tsc"), "--project", here("tsconfig.json")], { stdio: "inherit" });

// app starts the app with a catalog, and resolves when the app answers.
function app() {
  const environment = { ...process.env, TABLE_CATALOG_NAME: "People", TABLE_CATALOG_INDEX_KEYS: "eid", TABLE_CATALOG_ROW_KEY: "lastname" };
  const child = spawn(program, ["local", "--root", here("../.."), "--storage", "embedded", "--addr", "127.0.0.1:0"], { env: environment });
  return new Promise((done, failed) => {
    let said = "";
    const heard = (text) => {
      said += text;
      const ready = /^ready (\S+)$/m.exec(said);
      if (ready) done([child, ready[1]]);
    };
    child.stdout.on("data", heard);
    child.stderr.on("data", heard);
    child.once("exit", (code) => failed(new Error(`local ended with ${code}: ${said}`)));
  });
}

const [child, url] = await app();
try {
  execFileSync(process.execPath, [here("built/client.js"), url], { stdio: "inherit" });
} finally {
  child.kill("SIGINT");
}
console.log("ok: docs/openapi.json is linted, and a client made from it works");
process.exit(0);
