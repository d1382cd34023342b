// SPDX-License-Identifier: Apache-2.0
'use strict';

// Who asks (bearer token, client certificate, name and password), and whether it may.

const status = require('./status');

// Users: {name, groups, token, password, rules}. rules: [{verbs, resources ("pods", "pods/log"),
// groups, namespaces, names}], each list with "*" for all; absent members are "*" but for verbs
// and resources. Members of system:masters may do everything.
class Auth {
    constructor(users) {
        this.users = new Map();
        this.anonymous = false;
        users.forEach((user) => this.set(user));
    }

    set(user) {
        this.users.set(user.name, { groups: [], rules: [], ...this.users.get(user.name), ...user });
    }

    remove(name) {
        this.users.delete(name);
    }

    // For the token of a service account; the user is made when it is first asked for.
    serviceAccount(namespace, name, token) {
        const full = `system:serviceaccount:${namespace}:${name}`;
        this.set({ name: full, token, groups: ['system:serviceaccounts',
            `system:serviceaccounts:${namespace}`] });
    }

    identify(headers, certificate) {
        const [scheme, word] = (headers.authorization || '').split(' ');
        if (/^bearer$/i.test(scheme) && word)
            return this.found((user) => user.token === word);
        if (/^basic$/i.test(scheme) && word) {
            const [name, ...rest] = Buffer.from(word, 'base64').toString().split(':');
            return this.found((user) => user.name === name && user.password !== undefined &&
                user.password === rest.join(':'));
        }
        if (certificate) {
            const known = this.users.get(certificate.name);
            return known || { ...certificate, rules: [] };
        }
        if (this.anonymous)
            return this.users.get('system:anonymous') || { name: 'system:anonymous',
                groups: ['system:unauthenticated'], rules: [] };
        throw status.unauthorized();
    }

    found(test) {
        for (const user of this.users.values())
            if (test(user))
                return user;
        throw status.unauthorized();
    }

    // asked: {verb, group, resource ("pods/log"), namespace, name}
    allows(user, asked) {
        if (user.groups.includes('system:masters'))
            return true;
        const has = (list, value) => list === undefined || list.includes('*') ||
            list.includes(value);
        return user.rules.some((rule) => has(rule.verbs || [], asked.verb) &&
            has(rule.resources || [], asked.resource) && has(rule.groups, asked.group) &&
            has(rule.namespaces, asked.namespace) && (rule.names === undefined ||
            has(rule.names, asked.name)));
    }

    check(call) {
        const { resource, subresource, verb, namespace, name, user } = call;
        const path = subresource ? `${resource.resource}/${subresource}` : resource.resource;
        const asked = { verb, group: resource.group, resource: path, namespace, name };
        if (this.allows(user, asked))
            return;
        const place = namespace ? `in the namespace "${namespace}"` : 'at the cluster scope';
        const subject = name ? `${status.qualified(resource)} "${name}" is forbidden`
            : `${status.qualified(resource)} is forbidden`;
        throw status.failure(403, 'Forbidden', `${subject}: User "${user.name}" cannot ${verb} ` +
            `resource "${path}" in API group "${resource.group}" ${place}`,
        status.details(resource, name));
    }

    // The answer to a SelfSubjectAccessReview.
    accessReview(user, spec) {
        const asked = spec.resourceAttributes;
        if (!asked)
            return { allowed: Boolean(spec.nonResourceAttributes) };
        const resource = asked.subresource ? `${asked.resource}/${asked.subresource}`
            : asked.resource;
        const allowed = this.allows(user, { verb: asked.verb, group: asked.group || '', resource,
            namespace: asked.namespace || '', name: asked.name });
        return allowed ? { allowed, reason: 'allowed by the rules of the double' } : { allowed };
    }

    // ... to a SelfSubjectRulesReview
    rulesReview(user, { namespace } = {}) {
        const all = [{ verbs: ['*'], resources: ['*'], groups: ['*'] }];
        const rules = (user.groups.includes('system:masters') ? all : user.rules)
            .filter((rule) => !rule.namespaces || rule.namespaces.includes(namespace));
        return { incomplete: false, nonResourceRules: [], resourceRules: rules.map((rule) => ({
            verbs: rule.verbs || [], apiGroups: rule.groups || [''],
            resources: rule.resources || [], resourceNames: rule.names })) };
    }

    // ... and to a SelfSubjectReview
    selfReview(user) {
        return { userInfo: { username: user.name, groups: user.groups } };
    }
}

module.exports = { Auth };
