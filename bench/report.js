#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// The tables of docs/performance.md from what the benchmarks have measured.
//
//     bench/report.js [--into FILE.md] MEASURED.json…
//
// MEASURED.json is the --json of bench/run.sh, bench/peers.js or bench/growth.js, one of each kind or
// fewer. With --into the text between the lines <!-- measured --> and <!-- /measured --> of the file is
// replaced, otherwise the tables are printed.
'use strict';

const fs = require('node:fs');

const { RATIOS, ratios, other, median } = require('./ratios.js');

const NAMES = { tenax: 'Tenax', redis: 'Redis', beanstalkd: 'beanstalkd', 'rabbitmq-quorum': 'RabbitMQ, quorum queue',
  'rabbitmq-classic': 'RabbitMQ, classic queue' };

// What Tenax wants to reach by itself; more: at least, otherwise at most.
const GOALS = [
  { of: 'run', key: 'enqueue.server_cpu_us', title: 'CPU of the server for an enqueue, 64 connections', unit: 'µs', goal: 8 },
  { of: 'run', key: 'bulk.jobs_per_s', title: 'bulk, empty', unit: '/s', goal: 700000, more: true },
  { of: 'run', key: 'waiting_bulk.jobs_per_s', title: 'bulk, while jobs wait', unit: '/s', goal: 500000, more: true },
  { of: 'run', key: 'take.jobs_per_s', title: 'take + success', unit: '/s', goal: 450000, more: true },
  { of: 'run', key: 'claim.jobs_per_s', title: 'claim + success', unit: '/s', goal: 300000, more: true },
  { of: 'run', key: 'http2.jobs_per_s', title: 'HTTP/2, 64 × 16', unit: '/s', goal: 250000, more: true },
  { of: 'run', key: 'tls.share', title: 'TLS / clear text', unit: '', goal: 0.75, more: true },
  { of: 'run', key: 'due.p99_ms', title: '50,000 timers, p99 of their lateness', unit: 'ms', goal: 2 },
  { of: 'run', share: ['waiting_latency.p99_us', 'latency.p99_us'], title: 'delivery p99, jobs waiting / empty', unit: '',
    goal: 4 },
  { of: 'run', key: 'restart.after_kill_ms', title: 'restart after SIGKILL', unit: 'ms', goal: 2000 },
  { of: 'run', key: 'restart.after_term_ms', title: 'restart after an orderly end', unit: 'ms', goal: 2000 },
  { of: 'run', key: 'waiting.own_bytes', title: 'own memory of a waiting job', unit: 'bytes', goal: 33.5 },
  { of: 'run', key: 'waiting.rss_mib', title: 'resident memory while jobs wait', unit: 'MiB',
    goal: (sizes) => Math.round((150e6 + 48 * sizes.waiting_jobs) / 2 ** 20) },
];

const ROWS = [
  ['enqueue', 'enqueue, 64 connections'], ['pipelined', 'enqueue, 64 × 16 pipelined'], ['clear', 'enqueue by `load`, clear text'],
  ['tls', 'enqueue by `load`, TLS'],
  ['http2', 'enqueue over HTTP/2, 64 × 16'], ['io1', 'enqueue, 1 I/O thread'], ['io2', 'enqueue, 2 I/O threads'],
  ['io4', 'enqueue, 4 I/O threads'], ['io1_pipelined', 'pipelined, 1 I/O thread'],
  ['io2_pipelined', 'pipelined, 2 I/O threads'], ['io4_pipelined', 'pipelined, 4 I/O threads'],
  ['bulk', 'bulk, 1,000 each'], ['waiting_bulk', 'bulk, while jobs wait'], ['take', 'take + success'],
  ['claim', 'claim + success'], ['tasks', 'Taskcluster: create, claim, complete'],
  ['limited', 'take, at most 1,000 at once'], ['queues_enqueue', 'enqueue to 10,000 queues'],
  ['queues_take', 'take of 10,000 queues'], ['latency', 'enqueue to delivery, 1,000/s'],
  ['waiting_latency', 'the same, while jobs wait'],
];

// ---- text ----

function number(v) {
  if (v >= 1000) return Math.round(v).toLocaleString('en-US');
  return String(Number(v.toPrecision(3)));
}

function spread(list, unit = '') {
  if (!list?.length) return '';
  const text = number(median(list)), low = number(Math.min(...list)), high = number(Math.max(...list));
  return `${text}${unit && ` ${unit}`}${low === high ? '' : ` (${low}–${high})`}`;
}

function table(head, rows) {
  return [`| ${head.join(' | ')} |`, `|${head.map((_, i) => (i ? '--:' : '---')).join('|')}|`,
    ...rows.map((r) => `| ${r.join(' | ')} |`)].join('\n');
}

// ---- what was measured ----

const reached = (value, goal, more) => (more ? value >= goal : value <= goal);

function ofGoal(file, g) {
  const s = file?.samples.tenax;
  if (!s) return undefined;
  if (!g.share) return s[g.key];
  const [upper, lower] = g.share.map((k) => s[k]);
  return upper && lower && upper.slice(0, lower.length).map((v, i) => v / lower[i]);
}

// [title, measured, goal, reached] of each that was measured.
function goals(files) {
  const found = [];
  for (const r of files.peers ? RATIOS : []) {
    const list = ratios(files.peers.samples, r);
    if (!list) continue;
    const title = `${rowOf(r.key)}: ${r.title}, Tenax / ${NAMES[other(files.peers.samples, r)]}`;
    found.push({ title, text: spread(list), goal: r.goal ? `${r.more ? '≥' : '≤'} ${r.goal}` : '',
      reached: !r.goal || reached(median(list), r.goal, r.more), behind: !reached(median(list), 1, r.more) });
  }
  for (const g of GOALS) {
    const list = ofGoal(files[g.of], g);
    if (!list?.length) continue;
    const goal = typeof g.goal === 'function' ? g.goal(files[g.of].sizes) : g.goal;
    found.push({ title: g.title, text: spread(list, g.unit), goal: `${g.more ? '≥' : '≤'} ${number(goal)}`,
      reached: reached(median(list), goal, g.more) });
  }
  return found;
}

const rowOf = (key) => ({ enqueue: 'enqueue, 64 connections', pipelined: 'enqueue, 64 × 16 pipelined',
  latency: 'enqueue to delivery, 1,000/s', waiting: 'waiting jobs' }[key.split('.')[0]]);

function rowCells(s, row) {
  const of = (measure) => spread(s[`${row}.${measure}`]);
  return [of('jobs_per_s'), of('p50_us'), of('p99_us'), of('server_cpu_us'), of('load_cpu_us')];
}

const HEAD = ['jobs/s', 'p50 µs', 'p99 µs', 'server CPU µs', 'generator CPU µs'];

function peersTables({ samples, sizes }) {
  const parts = [];
  for (const row of ['enqueue', 'pipelined', 'latency']) {
    const rows = Object.keys(NAMES).filter((n) => samples[n]?.[`${row}.jobs_per_s`])
      .map((n) => [NAMES[n], ...rowCells(samples[n], row)]);
    if (rows.length) parts.push(table([rowOf(`${row}.`), ...HEAD], rows));
  }
  const waiting = Object.keys(NAMES).filter((n) => samples[n]?.['waiting.rss_bytes'])
    .map((n) => [NAMES[n], spread(samples[n]['waiting.rss_bytes']), spread(samples[n]['waiting.own_bytes'])]);
  if (waiting.length)
    parts.push(table([`memory of a job, ${number(sizes.waiting_jobs)} waiting`, 'resident bytes', 'own bytes'], waiting));
  return parts.join('\n\n');
}

function runTables({ samples: { tenax: s }, sizes }) {
  const rows = ROWS.filter(([row]) => s[`${row}.jobs_per_s`]).map(([row, title]) => [title, ...rowCells(s, row)]);
  const parts = [table(['Tenax', ...HEAD], rows)];
  const waiting = [['restart.after_kill_ms', 'restart after SIGKILL', 'ms'],
    ['restart.after_term_ms', 'restart after an orderly end', 'ms'], ['waiting.rss_mib', 'resident memory', 'MiB'],
    ['waiting.rss_filled', 'its growth, each job, just filled', 'bytes'],
    ['waiting.rss_restarted', 'its growth, each job, restarted', 'bytes'],
    ['waiting.own_bytes', 'own memory, each job', 'bytes']].filter(([key]) => s[key]);
  if (waiting.length)
    parts.push(table([`${number(sizes.waiting_jobs)} jobs waiting`, ''],
      waiting.map(([key, title, unit]) => [title, spread(s[key], unit)])));
  const disk = [['fsync.append_p50_us', '20 KiB appended + fdatasync, p50'],
    ['log.log.p50_us', '4,000 bytes to the log of commits, p50'],
    ['log.plain.p50_us', '4,000 bytes to a growing file + fdatasync, p50']].filter(([key]) => s[key]);
  if (disk.length) parts.push(table(['the disk by itself', 'µs'], disk.map(([key, title]) => [title, spread(s[key])])));
  return parts.join('\n\n');
}

function growthTables({ samples: { tenax: s } }) {
  const parts = [];
  for (const kind of ['jobs', 'queues', 'connections']) {
    const counts = [...new Set(Object.keys(s).filter((k) => k.startsWith(`growth.${kind}.`))
      .map((k) => Number(k.split('.')[2])))].sort((a, b) => a - b);
    const measures = [['enqueue.jobs_per_s', 'enqueue/s'], ['enqueue.server_cpu_us', 'CPU µs'],
      ['enqueue.p99_us', 'p99 µs'], ['delivery.p50_us', 'delivery p50 µs'], ['delivery.p99_us', 'delivery p99 µs'],
      ['bulk.jobs_per_s', 'bulk/s'], ['rss_bytes', 'resident bytes each'], ['restart_ms', 'restart ms']]
      .filter(([name]) => counts.some((n) => s[`growth.${kind}.${n}.${name}`]));
    if (counts.length)
      parts.push(table([kind === 'jobs' ? 'jobs waiting' : kind, ...measures.map(([, title]) => title)],
        counts.map((n) => [number(n), ...measures.map(([name]) => spread(s[`growth.${kind}.${n}.${name}`]))])));
  }
  return parts.join('\n\n');
}

function machineLines(files) {
  return Object.values(files).map((f) => {
    const versions = Object.entries(f.versions).map(([n, v]) => `${NAMES[n] ?? n} ${v}`).join(', ');
    return `- \`${f.bench}\`, ${f.date}: ${f.machine.cpu}, ${f.machine.cores} cores, ${number(f.machine.memory_mib)} MiB, ` +
      `Linux ${f.machine.kernel}, ${f.machine.filesystem}, commit mode ${f.commit_mode}${f.serve ? `, \`${f.serve}\`` : ''}; ${f.runs} runs of each row; ${versions}` +
      `${f.quick ? '. **Short form: to be seen, not to be judged by.**' : ''}`;
  }).join('\n');
}

function render(files) {
  const all = goals(files), behind = all.filter((g) => g.behind), missed = all.filter((g) => !g.reached);
  const parts = [machineLines(files), 'Median, and the lowest and the highest run.'];
  if (all.length)
    parts.push('### Ratios and goals', table(['', 'measured', 'goal', ''],
      all.map((g) => [g.title, g.text, g.goal, !g.goal ? '' : g.reached ? 'reached' : '**missed**'])));
  if (all.length)
    parts.push('### Where Tenax is behind', [
      ...behind.map((g) => `- ${g.title}: ${g.text}.`),
      ...missed.filter((g) => !g.behind).map((g) => `- Its goal missed: ${g.title}: ${g.text}, goal ${g.goal}.`),
      ...(missed.length || behind.length ? [] : ['- Nowhere among these rows.'])].join('\n'));
  if (files.peers) parts.push('### Beside other queues', peersTables(files.peers));
  if (files.run) parts.push('### Tenax by itself', runTables(files.run));
  if (files.growth) parts.push('### As work grows', growthTables(files.growth));
  return parts.join('\n\n');
}

function read(names) {
  const files = {};
  for (const name of names) {
    const file = JSON.parse(fs.readFileSync(name, 'utf8'));
    if (file.schema !== 1 || !['run', 'peers', 'growth'].includes(file.bench))
      throw new Error(`${name}: not what a benchmark has measured`);
    if (files[file.bench]) throw new Error(`${name}: a second file of bench ${file.bench}`);
    files[file.bench] = file;
  }
  return Object.fromEntries(['peers', 'run', 'growth'].filter((k) => files[k]).map((k) => [k, files[k]]));
}

function main(args) {
  let into;
  if (args[0] === '--into') [, into, ...args] = args;
  if (!args.length) {
    console.error('usage: bench/report.js [--into FILE.md] MEASURED.json…');
    process.exit(2);
  }
  const text = render(read(args));
  if (!into) {
    console.log(text);
    return;
  }
  const whole = fs.readFileSync(into, 'utf8');
  const marked = /(<!-- measured -->\n)[^]*?(\n<!-- \/measured -->)/;
  if (!marked.test(whole)) throw new Error(`${into}: no lines <!-- measured --> and <!-- /measured -->`);
  fs.writeFileSync(into, whole.replace(marked, (_, before, after) => `${before}\n${text}\n${after}`));
}

try {
  main(process.argv.slice(2));
} catch (e) {
  console.error(`report: ${e.message}`);
  process.exit(1);
}
