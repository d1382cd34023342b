// SPDX-License-Identifier: Apache-2.0
'use strict';

// What goes wrong on purpose. A rule is {match, times, rate, …}; match: {verb, resource ("pods",
// "pods/log"), namespace, name (a pattern; of what is created by JSON, its own name or generateName),
// path (a pattern), user}; the first that matches and is not used up acts. What it does, in the
// order in which it is done:
//
//   delay: ms                 the answer comes so much later
//   hold: promise             it comes once that is fulfilled
//   hang: true                it never comes
//   drop: true                the connection is closed, nothing was done
//   status: code              refused with this code; with retryAfter: seconds, message
//   raw: {code, type, text}   an answer that is not the API's, such as a proxy's page
//   lost: true                it is done, then the connection is closed without an answer
//   half: true                it is done, the answer breaks off in its middle

function nameOf({ name, body }) {
    try {
        const { metadata } = name ? { metadata: { name } } : JSON.parse(body.toString());
        return metadata.name || metadata.generateName || '';
    } catch {
        return ''; // not an object, or not JSON
    }
}

class Faults {
    constructor({ random = Math.random } = {}) {
        this.rules = [];
        this.random = random;
        this.goneAsAnswer = false; // a watch from too long ago: 410 as the answer, not as an event
    }

    add(rule) {
        this.rules.push({ times: Infinity, rate: 1, match: {}, ...rule });
    }

    clear() {
        this.rules = [];
        this.goneAsAnswer = false;
    }

    // call: {verb, resource, subresource, namespace, name, user, path}; the rule, or undefined.
    take(call) {
        if (this.rules.length === 0)
            return undefined;
        const rule = this.rules.find((one) => one.times > 0 && this.matches(one.match, call) &&
            (one.rate >= 1 || this.random() < one.rate));
        if (rule)
            rule.times--;
        return rule;
    }

    matches({ verb, resource, namespace, name, path }, call) {
        const full = call.resource && (call.subresource
            ? `${call.resource.resource}/${call.subresource}` : call.resource.resource);
        return (!verb || verb === call.verb) && (!resource || resource === full) &&
            (!namespace || namespace === call.namespace) &&
            (!name || new RegExp(name).test(nameOf(call))) &&
            (!path || new RegExp(path).test(call.path));
    }
}

module.exports = { Faults };
