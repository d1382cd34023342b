// SPDX-License-Identifier: Apache-2.0
'use strict';

/** All jobs of a queue, in id order; a filter may follow. */
async function list(conn, queue, filter = '') {
  const { status, body } = await conn.get(`/jobs?queue=${queue}&limit=2000${filter}`);
  if (status !== 200 || body.pages.next) throw new Error(`the list of ${queue}: ${status}`);
  return body.jobs;
}

module.exports = { list };
