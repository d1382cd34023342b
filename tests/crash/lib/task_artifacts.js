// SPDX-License-Identifier: Apache-2.0
'use strict';

// The bytes of artifacts of the types s3 and object: what was acknowledged is there, whole; what
// broke off is not there, and no file is left that nobody names.

const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const { setTimeout: delay } = require('node:timers/promises');

const { BYTES } = require('./client.js');

const HOUR = 3600000;
const SIZE_MAX = 100000;
const SAMPLE = 30; // of artifacts that were checked before
const QUEUE_API = '/api/queue/v1';
const OBJECT_API = '/api/object/v1';

const pathOf = (url) => url.replace(/^http:\/\/[^/]+/, '');

class Artifacts {
  constructor({ random, counts, fail, root, encode }) {
    Object.assign(this, { random, counts, fail, encode });
    this.folder = path.join(root, 'artifacts');
    /* {base, name, bytes, is: 'doubt' | 'there' | 'cut off', audits, uploadId: of an object} */
    this.list = [];
    counts.uploads = counts.cutOff = 0;
  }

  bytes() {
    const bytes = Buffer.alloc(this.random.range(0, SIZE_MAX));
    for (let i = 0; i < bytes.length; i += 97) bytes[i] = this.random.range(0, 255);
    return bytes;
  }

  /** By the worker of a run; false if the run is over. */
  async add(conn, task, runId) {
    const base = `${QUEUE_API}/task/${task.id}/runs/${runId}`;
    const name = `public/${this.list.length}`;
    const storageType = this.random.pick(['s3', 's3', 'object']);
    const expires = new Date(Date.now() + HOUR / 2).toJSON();
    const { status, body } = await conn.post(`${base}/artifacts/${this.encode(name)}`,
      { storageType, expires, contentType: BYTES });
    if (status === 409) return false;
    if (status !== 200) this.fail(`createArtifact answered ${status}: ${JSON.stringify(body)}`);
    const artifact = { base, name, bytes: this.bytes(), is: 'doubt', audits: 0 };
    this.list.push(artifact);
    if (storageType === 's3') await this.put(conn, artifact, body.putUrl);
    else await this.upload(conn, artifact, body);
    return true;
  }

  async put(conn, artifact, url) {
    if (this.random.chance(0.35)) {
      await this.cutOff(conn, artifact, url);
      return;
    }
    const { status } = await conn.request('PUT', pathOf(url), artifact.bytes);
    if (status !== 200) this.fail(`an upload was answered ${status}`);
    this.done(artifact);
  }

  done(artifact) {
    artifact.is = 'there';
    this.counts.uploads++;
  }

  /** The peer goes away before all of it is there. */
  async cutOff(conn, artifact, url) {
    artifact.is = 'cut off';
    this.counts.cutOff++;
    const socket = net.connect({ port: conn.socket.remotePort, host: '127.0.0.1' });
    socket.on('error', () => {});
    socket.write(`PUT ${pathOf(url)} HTTP/1.1\r\nHost: localhost\r\nContent-Type: ${BYTES}\r\n` +
      `Content-Length: ${artifact.bytes.length + 1}\r\n\r\n`);
    socket.write(artifact.bytes);
    await delay(this.random.range(0, 5));
    socket.destroy();
  }

  async upload(conn, artifact, { name, projectId, uploadId, expires }) {
    artifact.uploadId = uploadId;
    const upload = await conn.request('PUT', `${OBJECT_API}/upload/${this.encode(name)}`, {
      projectId, uploadId, expires,
      proposedUploadMethods: {
        putUrl: { contentType: BYTES, contentLength: artifact.bytes.length } },
    });
    if (upload.status !== 200) this.fail(`createUpload answered ${upload.status}`);
    const { url } = upload.body.uploadMethod.putUrl;
    const put = await conn.request('PUT', pathOf(url), artifact.bytes);
    if (put.status !== 200) this.fail(`an upload was answered ${put.status}`);
    const end = await conn.post(`${OBJECT_API}/finish-upload/${this.encode(name)}`,
      { projectId, uploadId });
    if (end.status !== 200) this.fail(`finishUpload answered ${end.status}`);
    await this.finishUploaded(conn, artifact);
  }

  async finishUploaded(conn, artifact) {
    const { status } = await conn.request('PUT',
      `${artifact.base}/artifacts/${this.encode(artifact.name)}`, { uploadId: artifact.uploadId });
    if (![200, 204].includes(status)) this.fail(`finishArtifact answered ${status}`);
    this.done(artifact);
  }

  /** Its bytes; null if it has none. */
  async read(conn, artifact) {
    const { status, body } =
      await conn.get(`${artifact.base}/artifact-content/${this.encode(artifact.name)}`);
    if (status === 404) return null;
    if (status !== 200) this.fail(`artifact-content answered ${status}`);
    const content = await conn.get(pathOf(body.url || await this.download(conn, body)));
    if (content.status === 404) return null;
    if (content.status !== 200) this.fail(`the content of an artifact answered ${content.status}`);
    return content.bytes;
  }

  /** The URL of an object. */
  async download(conn, { name }) {
    const { status, body } = await conn.request('PUT',
      `${OBJECT_API}/start-download/${this.encode(name)}`,
      { acceptDownloadMethods: { simple: true } });
    if (status !== 200) this.fail(`startDownload answered ${status}`);
    return body.url;
  }

  async check(conn, artifact) {
    const what = `artifact ${artifact.name} of ${artifact.base}`;
    const bytes = await this.read(conn, artifact);
    artifact.audits++;
    if (!bytes && artifact.is === 'there') this.fail(`${what} is LOST`);
    if (bytes && artifact.is === 'cut off') this.fail(`${what} is there, though it broke off`);
    if (bytes && !bytes.equals(artifact.bytes))
      this.fail(`${what} has ${bytes.length} bytes, not those that were put`);
    if (bytes && artifact.is === 'doubt') artifact.is = 'there';
  }

  async audit(conn) {
    const fresh = this.list.filter((artifact) => artifact.audits < 2);
    const some = Array.from({ length: Math.min(SAMPLE, this.list.length) },
      () => this.random.pick(this.list));
    for (const artifact of [...fresh, ...some]) await this.check(conn, artifact);
  }

  files() {
    return fs.existsSync(this.folder) ? fs.readdirSync(this.folder).length : 0;
  }

  count(fits) {
    return this.list.filter(fits).length;
  }

  /** A file for each, once the server has looked for others, which it does at its start. An object
   * may have its bytes from the upload on: nobody reads them before the artifact is finished. */
  async finish(conn) {
    for (const artifact of this.list) await this.check(conn, artifact);
    const there = this.count(({ is }) => is === 'there');
    const uploads = this.count(({ is, uploadId }) => is !== 'there' && uploadId);
    const most = there + uploads;
    for (const end = Date.now() + 120000; this.files() > most && Date.now() < end;) await delay(20);
    if (this.files() > most || this.files() < there)
      this.fail(`${this.files()} files for ${there} artifacts and ${uploads} uploads`);
  }
}

module.exports = { Artifacts };
