// SPDX-License-Identifier: Apache-2.0
'use strict';

// Values by the schemas of docs/openapi.json: valid ones, and for each keyword of a schema one that
// violates it alone. The same seed gives the same values.

const { ajv, document } = require('./openapi');

// mulberry32
function random(seed) {
    let state = seed >>> 0;
    return () => {
        state = (state + 0x6d2b79f5) >>> 0;
        let t = state;
        t = Math.imul(t ^ (t >>> 15), t | 1);
        t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
        return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
    };
}

function resolved(schema) {
    let at = schema;
    while (at.$ref || at.allOf?.length === 1)
        at = at.$ref ? at.$ref.slice(2).split('/').reduce((node, part) => node[part], document) : at.allOf[0];
    return at;
}

const CHARACTERS = [...'abcdefghijklmnopqrstuvwxyzABCXYZ0123456789-_. é中😀'];
const PRINTABLE = Array.from({ length: 95 }, (_, i) => String.fromCharCode(32 + i));

// Of a class as "0-9a-f" or "^,*?" between brackets.
function characters(text) {
    const not = text[0] === '^';
    const set = new Set();
    const list = [...text.slice(not ? 1 : 0)];
    for (let i = 0; i < list.length; i++) {
        if (list[i] === '\\')
            i++;
        if (list[i + 1] === '-' && i + 2 < list.length) {
            for (let c = list[i].charCodeAt(0); c <= list[i + 2].charCodeAt(0); c++)
                set.add(String.fromCharCode(c));
            i += 2;
        } else {
            set.add(list[i]);
        }
    }
    return not ? PRINTABLE.filter((c) => !set.has(c)) : [...set];
}

// Regular expressions of the document: groups, alternatives, classes, quantifiers, anchors.
class Pattern {
    constructor(source, pick) {
        this.source = source;
        this.at = 0;
        this.pick = pick;
    }

    alternatives() {
        const all = [this.sequence()];
        while (this.source[this.at] === '|') {
            this.at++;
            all.push(this.sequence());
        }
        return () => all[this.pick(0, all.length - 1)]();
    }

    sequence() {
        const parts = [];
        while (this.at < this.source.length && !'|)'.includes(this.source[this.at]))
            parts.push(this.quantified(this.atom()));
        return () => parts.map((part) => part()).join('');
    }

    atom() {
        const c = this.source[this.at++];
        if (c === '^' || c === '$')
            return () => '';
        if (c === '(') {
            if (this.source.startsWith('?:', this.at))
                this.at += 2;
            const inner = this.alternatives();
            this.at++;
            return inner;
        }
        if (c === '[') {
            const from = this.at;
            while (this.source[this.at] !== ']' || this.source[this.at - 1] === '\\')
                this.at++;
            const set = characters(this.source.slice(from, this.at++));
            return () => set[this.pick(0, set.length - 1)];
        }
        if (c === '.')
            return () => CHARACTERS[this.pick(0, CHARACTERS.length - 1)];
        const literal = c === '\\' ? this.source[this.at++] : c;
        return () => literal;
    }

    quantified(atom) {
        const rest = this.source.slice(this.at);
        const found = /^(?:([?*+])|\{(\d+)(?:(,)(\d*))?\})/.exec(rest);
        if (!found)
            return atom;
        this.at += found[0].length;
        const [, sign, low, comma, high] = found;
        const from = sign ? Number(sign === '+') : Number(low);
        const to = sign === '?' ? 1 : sign || (comma && !high) ? from + 4 : Number(high ?? low);
        return () => Array.from({ length: this.pick(from, Math.min(to, from + 30)) }, atom).join('');
    }
}

const FORMATS = {
    jq: ['.', 'true', '.a == 1', 'length > 2'],
    cron: ['* * * * *', '*/5 1 2 3 4', '0 0 1-5 * mon'],
    timezone: ['UTC', 'Europe/Berlin', 'America/New_York'],
    'time-span': ['1s', '90s', '15m', '1h30m', '1d'],
    quantity: ['512Mi', '1G', '4096'],
    'cpu-quantity': ['500m', '2', '1.5'],
    'event-names': ['job_enqueued', 'job_dead,job_completed'],
    pcre: ['a+', '^x', '(?i)timeout'],
};

class Generator {
    constructor(seed) {
        this.next = random(seed);
        this.pick = (low, high) => low + Math.floor(this.next() * (high - low + 1));
    }

    one(list) {
        return list[this.pick(0, list.length - 1)];
    }

    string(schema) {
        if (FORMATS[schema.format])
            return this.one(FORMATS[schema.format]);
        if (schema.pattern) {
            const valid = new RegExp(schema.pattern, 'u');
            for (let i = 0; i < 100; i++) {
                const text = new Pattern(schema.pattern, this.pick).alternatives()();
                if (valid.test(text) && text.length >= (schema.minLength ?? 0) &&
                    Buffer.byteLength(text) <= (schema.maxLength ?? Infinity))
                    return text;
            }
            throw new Error(`nothing matches ${schema.pattern}`);
        }
        const least = schema.minLength ?? 0;
        const most = schema.maxLength ?? least + 20;
        const length = this.one([least, Math.min(most, least + 1), Math.min(most, least + this.pick(0, 12)),
            Math.min(most, 1000)]);
        // Lengths are bytes for the server.
        if (length > 12)
            return 'x'.repeat(length);
        return Array.from({ length }, () => CHARACTERS[this.pick(0, 35)]).join('');
    }

    number(schema, whole) {
        const low = schema.minimum ?? (whole ? -(2 ** 31) : -1000);
        const high = schema.maximum ?? Math.max(low, 2 ** 31 - 1);
        return this.one([low, high, Math.min(low + 1, high), whole ? this.pick(low, high) :
            low + this.next() * (high - low)]);
    }

    any(depth = 2) {
        return this.one([null, true, 1.5, -7, 'text ü', '', depth ? [this.any(depth - 1)] : 0,
            depth ? { a: this.any(depth - 1) } : {}]);
    }

    object(schema) {
        const out = {};
        for (const [name, member] of Object.entries(schema.properties ?? {}))
            if (resolved(member).format !== 'cursor' && (schema.required?.includes(name) || this.next() < 0.25))
                out[name] = this.value(member);
        return out;
    }

    value(given) {
        const schema = resolved(given);
        const union = schema.oneOf ?? schema.anyOf;
        if (union)
            return this.value(this.one(union));
        if (schema.enum)
            return this.one(schema.enum);
        if ('const' in schema)
            return schema.const;
        if (!schema.type)
            return this.any();
        switch (this.one([schema.type].flat())) {
        case 'string': return this.string(schema);
        case 'integer': return this.number(schema, true);
        case 'number': return this.number(schema, false);
        case 'boolean': return this.next() < 0.5;
        case 'null': return null;
        case 'array': {
            const least = schema.minItems ?? 0;
            const length = Math.min(schema.maxItems ?? 3, least + this.pick(0, 2));
            return Array.from({ length }, () => this.value(schema.items ?? {}));
        }
        default:
            for (let i = 0; ; i++) {
                const object = this.object(schema);
                if (!schema.then || ajv.validate(schema.then, object))
                    return object;
                if (i === 200)
                    throw new Error('the conditions of an object are never met');
            }
        }
    }

    // [{keyword, value}]: each is against one keyword of the schema.
    violations(given) {
        const schema = resolved(given);
        const kinds = [schema.type ?? []].flat();
        const out = [];
        if (kinds.length === 0 || schema.oneOf || schema.anyOf)
            return out;
        const wrong = { string: 'text', integer: 7, boolean: true, object: { a: 1 }, array: [1] };
        for (const [kind, value] of Object.entries(wrong))
            if (!kinds.includes(kind) && !(kind === 'integer' && kinds.includes('number')))
                out.push({ keyword: `type (${kind})`, value });
        if (!kinds.includes('null'))
            out.push({ keyword: 'type (null)', value: null });
        if (schema.enum)
            out.push({ keyword: 'enum', value: `${schema.enum[0]}x` });
        if (schema.pattern)
            for (const value of ['', ',', '*', ' ', 'x', '0', '-1', `${this.string(schema)}\u0001`])
                if (!new RegExp(schema.pattern, 'u').test(value))
                    out.push({ keyword: 'pattern', value });
        if (schema.minimum !== undefined)
            out.push({ keyword: 'minimum', value: schema.minimum - 1 });
        if (schema.maximum !== undefined)
            out.push({ keyword: 'maximum', value: schema.maximum + 1 });
        if (kinds.includes('integer'))
            out.push({ keyword: 'type (fraction)', value: (schema.minimum ?? 0) + 0.5 });
        if (schema.minLength)
            out.push({ keyword: 'minLength', value: 'x'.repeat(schema.minLength - 1) });
        if (schema.maxLength)
            out.push({ keyword: 'maxLength', value: 'x'.repeat(schema.maxLength + 1) });
        if (schema.maxItems)
            out.push({ keyword: 'maxItems', value: Array.from({ length: schema.maxItems + 1 }, (_, i) => {
                const item = this.value(schema.items);
                return typeof item === 'string' ? `${item.slice(0, 8)}${i}` : item;
            }) });
        for (const name of schema.required ?? []) {
            const value = this.object(schema);
            delete value[name];
            out.push({ keyword: `required (${name})`, value });
        }
        return out;
    }
}

module.exports = { Generator, resolved };
