// SPDX-License-Identifier: Apache-2.0

import { pathToFileURL } from 'node:url';

const [clients, mode, queue, jobs, concurrency] = process.argv.slice(2);
const { Client, Worker } = await import(pathToFileURL(`${clients}/node/src/index.js`));
const client = new Client();
const begun = performance.now(), before = process.cpuUsage();
let left = Number(jobs);

async function enqueue() {
    while (left-- > 0)
        await client.enqueue(queue, 't', { n: 1 });
}

if (mode === 'drain')
    await new Worker(client, queue, () => {}, { concurrency: Number(concurrency) }).run({ drain: true });
else
    await Promise.all(Array.from({ length: Number(concurrency) }, enqueue));
const { user, system } = process.cpuUsage(before);
console.log(JSON.stringify({ seconds: (performance.now() - begun) / 1000, cpu: (user + system) / 1e6 }));
process.exit();
