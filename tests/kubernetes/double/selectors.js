// SPDX-License-Identifier: Apache-2.0
'use strict';

// Label selectors (the whole grammar: equality, sets, existence, numbers) and field selectors.
// Both are parsed into a function from an object to whether it matches.

const { badRequest } = require('./status');

const KEY = /^([a-z0-9]([a-z0-9.-]*[a-z0-9])?\/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;
const VALUE = /^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$/;

// Splits at commas that are not inside of parentheses.
function terms(text) {
    const out = [];
    let depth = 0;
    let start = 0;
    for (let i = 0; i < text.length; i++) {
        if (text[i] === '(')
            depth++;
        else if (text[i] === ')')
            depth--;
        else if (text[i] === ',' && depth === 0) {
            out.push(text.slice(start, i));
            start = i + 1;
        }
    }
    out.push(text.slice(start));
    return out.map((term) => term.trim());
}

function refuse(text, why) {
    throw badRequest(`unable to parse requirement: ${why} in "${text}"`);
}

function checked(text, pattern, what, value) {
    if (!pattern.test(value))
        refuse(text, `invalid ${what} "${value}"`);
    return value;
}

function labelTerm(term) {
    let m = /^([^\s!=<>(),]+)\s+(in|notin)\s*\(([^()]*)\)$/.exec(term);
    if (m) {
        const key = checked(term, KEY, 'label key', m[1]);
        const values = new Set(m[3].split(',').map((v) => checked(term, VALUE, 'label value',
            v.trim())));
        return m[2] === 'in' ? (labels) => key in labels && values.has(labels[key])
            : (labels) => !(key in labels) || !values.has(labels[key]);
    }
    m = /^([^\s!=<>(),]+)\s*(==|=|!=|>|<)\s*([^\s!=<>(),]*)$/.exec(term);
    if (m) {
        const key = checked(term, KEY, 'label key', m[1]);
        const value = checked(term, VALUE, 'label value', m[3]);
        if (m[2] === '!=')
            return (labels) => labels[key] !== value;
        if (m[2] === '<' || m[2] === '>') {
            if (!/^-?\d+$/.test(value))
                refuse(term, 'for < and > the value must be an integer');
            const bound = BigInt(value);
            const holds = m[2] === '<' ? (n) => n < bound : (n) => n > bound;
            return (labels) => /^-?\d+$/.test(labels[key] || '') && holds(BigInt(labels[key]));
        }
        return (labels) => labels[key] === value;
    }
    m = /^(!?)\s*([^\s!=<>(),]+)$/.exec(term);
    if (!m)
        refuse(term, 'cannot be read');
    const key = checked(term, KEY, 'label key', m[2]);
    return m[1] ? (labels) => !(key in labels) : (labels) => key in labels;
}

const NONE = Object.freeze({});

// null when everything matches.
function parseLabels(text) {
    if (!text || !text.trim())
        return null;
    const tests = terms(text).map(labelTerm);
    return (object) => {
        const labels = object.metadata.labels || NONE;
        return tests.every((test) => test(labels));
    };
}

function member(object, path) {
    let value = object;
    for (const name of path.split('.')) {
        if (value === undefined || value === null)
            return '';
        value = value[name];
    }
    return value === undefined || value === null ? '' : String(value);
}

// resource.fields: the members besides name and namespace that its objects can be chosen by.
function parseFields(text, resource) {
    if (!text || !text.trim())
        return null;
    const tests = terms(text).filter(Boolean).map((term) => {
        const m = /^([^=!\s]+)\s*(==|=|!=)\s*(.*)$/.exec(term);
        if (!m)
            throw badRequest(`invalid selector: '${text}'; can't understand '${term}'`);
        const [, path, operator, value] = m;
        const known = path === 'metadata.name' || (path === 'metadata.namespace' &&
            resource.namespaced) || (resource.fields || []).includes(path);
        if (!known)
            throw badRequest(`Unable to find "${resource.group || 'v1'}, Resource=` +
                `${resource.resource}" that match label selector "", field selector "${text}": ` +
                `field label not supported: ${path}`);
        const plain = value.replace(/\\([\\,=])/g, '$1');
        return operator === '!=' ? (object) => member(object, path) !== plain
            : (object) => member(object, path) === plain;
    });
    return (object) => tests.every((test) => test(object));
}

function both(first, second) {
    if (!first || !second)
        return first || second || null;
    return (object) => first(object) && second(object);
}

// A LabelSelector object (matchLabels, matchExpressions), as affinity terms have it.
function matchesSelector(selector, labels) {
    if (!selector)
        return false;
    const given = labels || NONE;
    for (const [key, value] of Object.entries(selector.matchLabels || {}))
        if (given[key] !== value)
            return false;
    return (selector.matchExpressions || []).every((e) => matchesExpression(e, given));
}

// One expression of a label selector or of a node selector (which has Gt and Lt besides).
function matchesExpression({ key, operator, values = [] }, given) {
    const has = Object.hasOwn(given, key);
    switch (operator) {
    case 'In': return has && values.includes(given[key]);
    case 'NotIn': return !has || !values.includes(given[key]);
    case 'Exists': return has;
    case 'DoesNotExist': return !has;
    case 'Gt': return has && Number(given[key]) > Number(values[0]);
    case 'Lt': return has && Number(given[key]) < Number(values[0]);
    default: return false;
    }
}

module.exports = { parseLabels, parseFields, both, matchesSelector, matchesExpression };
