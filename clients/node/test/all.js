// SPDX-License-Identifier: Apache-2.0

// One after the other: an answer that the proxy is to lose is that of the next request.
await import('./client.test.js');
await import('./worker.test.js');
await import('./together.test.js');
