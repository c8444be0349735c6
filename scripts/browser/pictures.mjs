// Takes the pictures of the console in docs/: a running copy of the demo's table, and a query in the demo's catalog. Arguments: the program and the
// browser's executable. ImageMagick's convert reduces the number of colours, so that the files are small.
import { execFileSync, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { setTimeout } from "node:timers/promises";
import { chromium } from "playwright-core";

const [program, executablePath] = process.argv.slice(2);
const demo = spawn(program, ["demo", "--watch"], { stdio: ["ignore", "ignore", "pipe"] });
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
try {
  let home;
  for await (const line of createInterface({ input: demo.stderr })) {
    console.log(line);
    home = /^the app keeps running until an interrupt; its console is at (\S+)$/.exec(line)?.[1];
    if (home) break;
  }
  if (!home) throw new Error("the demo has ended");
  demo.stderr.resume();
  async function take(name, height, colorScheme, address, ready) {
    const page = await browser.newPage({ viewport: { width: 1000, height }, colorScheme });
    await page.goto(home + address);
    await ready(page);
    const file = new URL(`../../docs/console-${name}.png`, import.meta.url).pathname;
    await page.screenshot({ path: file });
    execFileSync("convert", [file, "-strip", "+dither", "-colors", "256", `PNG8:${file}`]);
  }
  const body = { source: { table: "packages" }, action: { type: "copy", destination: { table: "packages2" } }, limits: { rowsPerSecond: 1500 } };
  const started = await fetch(new URL("../scans", home), { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  await take("scan", 800, "light", `#/scans/${(await started.json()).id}`, async (page) => {
    const rows = () => page.evaluate(() => Number(document.querySelector("main dd")?.textContent.replaceAll(",", "")));
    while (!((await rows()) > 45_000)) await setTimeout(500);
  });
  await take("catalog", 560, "dark", "#/catalog?section=games", (page) => page.locator("tbody tr").first().waitFor());
} finally {
  demo.kill("SIGINT");
  await browser.close();
}
