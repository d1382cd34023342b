// SPDX-License-Identifier: Apache-2.0
'use strict';

// The queues of the main load. Others are the side loads': each of them knows its own jobs.

const QUEUES = ['mail', 'image', 'report', 'a-longer-name/with.parts'];
const QUERY = `queue=${QUEUES.map(encodeURIComponent).join(',')}`;

module.exports = { QUEUES, QUERY };
