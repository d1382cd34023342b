// SPDX-License-Identifier: Apache-2.0
'use strict';

// Which right each operation needs, and what of it is open to credentials that are limited to queues: by hand, so
// that it can disagree with src/access/rights.def.

const { RIGHTS } = require('./access');

// Which right an operation needs. An operation of the document that is not here fails the tests.
const NEEDED = {
    none: ['getLanding', 'getHealth'],
    see: ['getJob', 'listJobs', 'countJobs', 'listRuns', 'listErrors', 'getError', 'explainJob', 'explainQueues',
        'listFailureGroups', 'getFailureGroup', 'streamEvents', 'listQueues', 'getQueue', 'listNextJobs', 'listWorkers',
        'getWorker', 'getGroup', 'listBudgets', 'getBudget', 'listCronGroups', 'getCronGroup', 'getCronEntry',
        'listRetryPolicies', 'getRetryPolicy', 'listFailureCategories', 'getFailureCategories', 'getRetrySettings',
        'simulateRetryPolicies', 'getMetrics', 'listServers'],
    known: ['getVersion', 'getRights', 'getDescription'],
    enqueue: ['enqueueJob', 'enqueueJobs', 'sealGroup'],
    work: ['takeJobs', 'claimJobs', 'claimJob', 'putWorkerNotice', 'withdrawClaims', 'reportSuccess', 'reportSuccesses',
        'reportFailure', 'reportTermination', 'reportOutcomes', 'reportProgress', 'renewLease', 'renewLeases', 'releaseJob'],
    operate: ['listOperations', 'getOperation', 'stopOperation', 'undoOperation', 'listCanaryRetries', 'getCanaryRetry', 'stopCanaryRetry', 'quietWorker', 'resumeWorker', 'stopWorker',
        'patchJob', 'patchJobs', 'cancelJob', 'cancelJobs', 'retryJob', 'retryJobs', 'deleteJob',
        'deleteJobs', 'createQueue', 'putQueue', 'patchQueue', 'deleteQueue', 'createBudget', 'putBudget',
        'patchBudget', 'deleteBudget', 'putCronGroup', 'patchCronGroup', 'deleteCronGroup',
        'deleteCronGroups', 'addCronEntry', 'putCronEntry', 'patchCronEntry', 'deleteCronEntry',
        'createRetryPolicy', 'putRetryPolicy', 'deleteRetryPolicy', 'createFailureCategories',
        'putFailureCategories', 'deleteFailureCategories', 'putRetrySettings'],
    administer: ['reset', 'resetClock', 'createToken', 'listTokens', 'deleteToken', 'getAudit', 'makeBackup',
        'compactTables', 'stepDown'],
};
// Who is limited to queues may ask these about what is in its own; of all others only those that are
// about no queue.
const IN_QUEUES = ['getJob', 'listJobs', 'countJobs', 'listRuns', 'listErrors', 'getError', 'explainJob',
    'explainQueues', 'listFailureGroups', 'getFailureGroup', 'streamEvents', 'listQueues', 'getQueue',
    'listNextJobs', 'listWorkers', 'getWorker', 'enqueueJob', 'enqueueJobs', 'takeJobs', 'claimJobs', 'claimJob', 'putWorkerNotice', 'reportSuccess',
    'reportSuccesses', 'reportFailure', 'reportTermination', 'reportOutcomes', 'reportProgress', 'renewLease', 'renewLeases',
    'releaseJob', 'patchJob', 'patchJobs', 'cancelJob', 'cancelJobs', 'retryJob', 'retryJobs', 'deleteJob',
    'deleteJobs', 'createQueue', 'putQueue', 'patchQueue', 'deleteQueue', 'listOperations', 'getOperation',
    'stopOperation', 'undoOperation'];
const ABOUT_NONE = ['getLanding', 'getHealth', 'getVersion', 'getRights', 'getDescription', 'getRetrySettings', 'withdrawClaims'];

// What is about all queues, and so refused to who is limited to some.
const ABOUT_ALL = ['getGroup', 'sealGroup', 'listBudgets', 'getBudget', 'createBudget', 'putBudget', 'patchBudget',
    'deleteBudget', 'listCronGroups', 'getCronGroup', 'getCronEntry', 'putCronGroup', 'patchCronGroup',
    'deleteCronGroup', 'deleteCronGroups', 'addCronEntry', 'putCronEntry', 'patchCronEntry', 'deleteCronEntry',
    'listRetryPolicies', 'getRetryPolicy', 'createRetryPolicy', 'putRetryPolicy', 'deleteRetryPolicy',
    'simulateRetryPolicies', 'listFailureCategories', 'getFailureCategories', 'createFailureCategories',
    'putFailureCategories', 'deleteFailureCategories', 'putRetrySettings', 'getMetrics', 'listServers', 'listCanaryRetries', 'getCanaryRetry', 'stopCanaryRetry', 'quietWorker', 'resumeWorker', 'stopWorker'];

// Whether the operation is refused whatever it is about. who: {roles, queues}.
function may(who, operation) {
    const right = Object.keys(NEEDED).find((word) => NEEDED[word].includes(operation));
    const has = right === 'none' || who.roles.some((role) => RIGHTS[role].includes(right));
    return has && !(who.queues && ABOUT_ALL.includes(operation));
}

module.exports = { ABOUT_ALL, ABOUT_NONE, IN_QUEUES, NEEDED, may };
