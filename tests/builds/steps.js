// SPDX-License-Identifier: Apache-2.0
'use strict';

// The steps of the build worker at which tests stop it.

const RUNS = [{ do: 'running' }];
const BAD_IMAGE = [{ do: 'waiting', reason: 'ErrImagePull', message: 'no such image' }];
const NO_NODE = [{ do: 'unschedulable' }];

function steps(bed) {
    const asked = (verb) => bed.double.faults.rules.some((rule) => rule.match.verb === verb && rule.times === 0);
    const hang = (verb) => bed.double.fault({ match: { verb, resource: 'pods' }, times: 1, hang: true });

    // name, what the pod does, how the step is held, when it is reached, how the build ends
    const STEPS = [
        ['the pod is being asked for', RUNS, () => hang('create'), () => asked('create'), null],
        ['the pod is there, the answer is not', RUNS,
            () => bed.double.fault({ match: { verb: 'create', resource: 'pods' }, times: 1, lost: true }),
            () => asked('create'), null],
        ['the pod is being looked at', RUNS, () => hang('list'), () => asked('list'), null],
        ['the failure has been decided, and is being told', BAD_IMAGE,
            (build) => bed.api.fault({ match: { id: build.id }, times: 1, hang: true }),
            (build) => build.updates.length > 0, /check if your image is valid/],
        ['the failure was taken, the answer is not there', BAD_IMAGE,
            (build) => bed.api.fault({ match: { id: build.id }, times: 1, mute: true }),
            (build) => build.finals.length > 0, /check if your image is valid/],
        ['Screwdriver is being told that it runs', RUNS,
            (build) => bed.api.fault({ match: { id: build.id }, times: 1, hang: true }),
            (build) => build.updates.length > 0, null],
        ['the pod of a build that found no node is being deleted', NO_NODE, () => hang('deletecollection'),
            () => asked('deletecollection'), /^Pod scheduling timeout exceeded$/],
    ];
    return { STEPS, asked, hang };
}

module.exports = { BAD_IMAGE, NO_NODE, RUNS, steps };
