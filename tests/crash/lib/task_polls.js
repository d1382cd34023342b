// SPDX-License-Identifier: Apache-2.0
'use strict';

// Workers that poll: messages of Azure's queues name pending runs. A message comes again, with a
// higher count, until it is deleted; then it never comes again.

const { setTimeout: delay } = require('node:timers/promises');

const { ms } = require('./task_ledger.js');

const VISIBILITY = 1; // second
const PATIENCE = 120000; // ends what hangs; nothing that works comes near it
const LEVELS = [2, 6]; // the queues of the priorities that tasks have
const API = '/api/queue/v1';

const pathOf = (url) => url.replace(/^http:\/\/[^/]+/, '');

function parse(xml) {
  const value = (text, name) => new RegExp(`<${name}>(.*?)</${name}>`).exec(text)[1];
  return [...xml.matchAll(/<QueueMessage>.*?<\/QueueMessage>/g)].map(([text]) => ({
    id: value(text, 'MessageId'), receipt: value(text, 'PopReceipt'),
    count: Number(value(text, 'DequeueCount')),
    ...JSON.parse(Buffer.from(value(text, 'MessageText'), 'base64')),
  }));
}

class Polls {
  constructor({ random, counts, fail, ledger, queue, work }) {
    Object.assign(this, { random, counts, fail, ledger, queue, work });
    this.messages = new Map(); // id -> {task, runId, seen: counts, floor, deleted}
    counts.messages = counts.messagesAgain = counts.messagesDeleted = 0;
  }

  async urls(conn) {
    const { status, body } = await conn.get(`${API}/poll-task-url/${this.queue}`);
    if (status !== 200) this.fail(`pollTaskUrls answered ${status}`);
    return LEVELS.map((level) => body.queues[level]);
  }

  async poll(conn, { signedPollUrl }, most) {
    const url = pathOf(signedPollUrl).replace(/visibilitytimeout=\d+/,
      `visibilitytimeout=${VISIBILITY}`);
    const { status, bytes } = await conn.get(`${url}&numofmessages=${most}`);
    if (status !== 200) this.fail(`a poll URL answered ${status}: ${bytes}`);
    return parse(bytes.toString()).map((message) => this.see(message)).filter(Boolean);
  }

  see(message) {
    const { id, taskId, runId, count } = message;
    const task = this.ledger.tasks.get(taskId);
    if (!task || task.queue !== this.queue) {
      this.fail(`message ${id} is of an unknown task: ${taskId}`);
      return null;
    }
    const known = this.messages.get(id) ||
      { task, runId, seen: new Set(), floor: 0, deleted: 'no', at: 0 };
    this.messages.set(id, known);
    if (known.task !== task || known.runId !== runId) this.fail(`message ${id} names another run`);
    if (known.deleted === 'yes') this.fail(`message ${id} comes again after it was deleted`);
    if (known.seen.has(count) || count <= known.floor)
      this.fail(`message ${id} comes for the ${count}th time again`);
    this.counts[count > 1 ? 'messagesAgain' : 'messages']++;
    known.seen.add(count);
    known.at = Date.now();
    return { ...message, task, known };
  }

  async delete(conn, { signedDeleteUrl }, { id, receipt, known, task }) {
    const before = known.deleted;
    known.deleted = 'doubt';
    const { status } = await conn.request('DELETE', pathOf(signedDeleteUrl)
      .replace('{{messageId}}', id).replace('{{popReceipt}}', encodeURIComponent(receipt)));
    if (status === 204) {
      known.deleted = 'yes';
      this.counts.messagesDeleted++;
      return;
    }
    const late = Date.now() >= known.at + VISIBILITY * 1000 || Date.now() >= task.deadline;
    if (![400, 404].includes(status) || (before === 'no' && !late))
      this.fail(`message ${id} could not be deleted: ${status}`);
    if (known.deleted === 'doubt' && status === 400) known.deleted = before;
  }

  /** One worker's round. */
  async step(conn, worker) {
    conn.pollUrls ??= await this.urls(conn);
    let some = false;
    for (const urls of conn.pollUrls) {
      for (const message of await this.poll(conn, urls, this.random.range(1, 8))) {
        some = true;
        const deletes = this.random.chance(0.85);
        await this.work(conn, message.task, message.runId, worker);
        if (deletes) await this.delete(conn, urls, message);
      }
    }
    if (!some) await delay(5);
  }

  /** While nobody is at work: what was counted before counts on from there. */
  audit() {
    for (const known of this.messages.values()) known.floor = Math.max(known.floor, ...known.seen);
  }

  /** What was never deleted comes again, whatever became of its task, until the deadline. */
  async finish(conn) {
    const all = [...this.messages.values()];
    const missing = new Set(all.filter((known) =>
      known.deleted === 'no' && ms(known.task.definition.deadline) > Date.now() + 2 * PATIENCE));
    const queues = await this.urls(conn);
    for (const end = Date.now() + PATIENCE; missing.size && Date.now() < end; await delay(20))
      for (const urls of queues)
        for (const message of await this.poll(conn, urls, 32)) {
          missing.delete(message.known);
          await this.delete(conn, urls, message);
        }
    for (const { task, runId } of missing)
      this.fail(`the message of task ${task.id}, run ${runId}, is LOST`);
  }
}

module.exports = { Polls };
