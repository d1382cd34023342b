// SPDX-License-Identifier: Apache-2.0
// Tenax against the best of its peers: which measures are compared, and the goals.
'use strict';

// more: the higher value is the better one. against: a peer, otherwise the best of them. goal: of the
// ratio.
const RATIOS = [
  { key: 'enqueue.jobs_per_s', title: 'jobs a second', more: true, against: 'redis', goal: 1.25 },
  { key: 'enqueue.jobs_per_s', title: 'jobs a second', more: true },
  { key: 'pipelined.jobs_per_s', title: 'jobs a second', more: true, against: 'redis', goal: 1.25 },
  { key: 'pipelined.jobs_per_s', title: 'jobs a second', more: true },
  { key: 'latency.p50_us', title: 'p50', more: false, against: 'beanstalkd', goal: 0.9 },
  { key: 'latency.p50_us', title: 'p50', more: false },
  { key: 'latency.p99_us', title: 'p99', more: false, against: 'beanstalkd', goal: 0.9 },
  { key: 'latency.p99_us', title: 'p99', more: false },
  { key: 'waiting.rss_bytes', title: 'resident memory a job', more: false },
];

function median(list) {
  return [...list].sort((a, b) => a - b)[Math.floor((list.length - 1) / 2)];
}

// The name of the peer that is compared with: undefined without any. Where the best is the one that
// a ratio of its own compares with, there is nothing to add.
function other(samples, { key, more, against }) {
  if (against) return samples[against]?.[key]?.length ? against : undefined;
  const named = Object.keys(samples).filter((n) => n !== 'tenax' && samples[n][key]?.length);
  const best = named.sort((a, b) => (median(samples[a][key]) - median(samples[b][key])) * (more ? -1 : 1))[0];
  return RATIOS.some((r) => r.key === key && r.against === best) ? undefined : best;
}

// Run by run, because the two ran one after the other: what the machine did meanwhile is in both.
function ratios(samples, ratio) {
  const peer = other(samples, ratio), ours = samples.tenax?.[ratio.key];
  if (!peer || !ours?.length) return undefined;
  const theirs = samples[peer][ratio.key];
  return ours.slice(0, theirs.length).map((v, i) => v / theirs[i]);
}

module.exports = { RATIOS, ratios, other, median };
