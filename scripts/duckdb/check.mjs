// Checks with DuckDB that the files of an export contain the rows of the table, by their counts and sums.
// Usage: node check.mjs HANDLER
import { DuckDBInstance } from '@duckdb/node-api';
import { spawn, execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const handler = process.argv[2];
const dir = mkdtempSync(join(tmpdir(), 'duckdb-'));
const emulator = spawn(handler, ['emulator', '--table-addr', '127.0.0.1:0', '--queue-addr', '127.0.0.1:0', '--blob-addr', '127.0.0.1:0'], { stdio: ['ignore', 'pipe', 'ignore'] });
try {
  const connection = await new Promise((done) => emulator.stdout.once('data', (d) => done(String(d).split('\n')[0])));
  const run = (args, input) => execFileSync(handler, args, { env: { ...process.env, AzureWebJobsStorage: connection }, input, stdio: ['pipe', 'pipe', 'inherit'] });
  const n = 12345;
  const rows = Array.from({ length: n }, (_, i) => JSON.stringify({
    PartitionKey: `p${i % 50}`, RowKey: `é${i}`, N: i, 'D@odata.type': 'Edm.Double', D: i / 4, 'L@odata.type': 'Edm.Int64', L: String(i * 1e12),
  }));
  run(['import', '--from', '-', '--to', 'orders', '--progress', 'none'], rows.join('\n') + '\n');
  const db = await (await DuckDBInstance.create(':memory:')).connect();
  for (const [compress, ext] of [['zstd', '.zst'], ['gzip', '.gz'], ['none', '']]) {
    run(['export', '--from', 'orders', '--to', join(dir, compress), '--compress', compress, '--progress', 'none']);
    const files = join(dir, compress, 'data', '*.jsonl' + ext);
    const reader = await db.runAndReadAll(`SELECT count(*)::INT AS n, sum(N)::BIGINT::VARCHAR AS sum, sum(D)::VARCHAR AS doubles, sum(L::HUGEINT)::VARCHAR AS longs,
      count(DISTINCT RowKey)::INT AS keys FROM read_json('${files}', format = 'newline_delimited', compression = '${compress === 'none' ? 'uncompressed' : compress}')`);
    const got = reader.getRowObjects()[0];
    const total = (n * (n - 1)) / 2;
    const want = { n, sum: String(total), doubles: (total / 4).toFixed(1), longs: `${total}${'0'.repeat(12)}`, keys: n };
    if (JSON.stringify(got) !== JSON.stringify(want)) throw new Error(`${compress}: ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
    console.log(`${compress}: ${got.n} rows, sum ${got.sum}`);
  }
  // The commands in docs/exports.md, with other paths.
  run(['export', '--from', 'orders', '--to', join(dir, 'backup/orders'), '--progress', 'none']);
  process.chdir(dir);
  const commands = readFileSync(new URL('../../docs/exports.md', import.meta.url), 'utf8').split('## Parquet')[1].split('\n## ')[0].matchAll(/duckdb -c "([^"]+)"/g);
  for (const [, sql] of commands) {
    const rows = (await db.runAndReadAll(sql)).getRowObjects();
    console.log(`${sql}: ${rows.length} rows`);
  }
  run(['import', '--from', 'orders.jsonl', '--to', 'back', '--progress', 'none']);
  run(['verify', '--from', 'orders', '--to', 'back', '--progress', 'none']);
} finally {
  emulator.kill();
  rmSync(dir, { recursive: true });
}
