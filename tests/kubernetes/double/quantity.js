// SPDX-License-Identifier: Apache-2.0
'use strict';

// Quantities ("500m", "1Gi", "1e3"): exact, in billionths, written in their canonical form.

const NANO = 1000000000n;
const DECIMAL = { n: 1n, u: 1000n, m: 1000000n, '': NANO, k: NANO * 1000n, M: NANO * 10n ** 6n,
    G: NANO * 10n ** 9n, T: NANO * 10n ** 12n, P: NANO * 10n ** 15n, E: NANO * 10n ** 18n };
const BINARY = { Ki: NANO << 10n, Mi: NANO << 20n, Gi: NANO << 30n, Ti: NANO << 40n,
    Pi: NANO << 50n, Ei: NANO << 60n };
const FORM = /^([+-]?)(\d+\.?\d*|\.\d+)(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?\d{1,3})?$/;

const WORDS = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*" +
    "[-+]?[0-9]*)$'";

const CACHED_MAX = 1000; // the same few are asked for over and over
const cached = new Map();

// {nano, form: 'decimal' | 'binary' | 'exponent'}, or null for what is no quantity.
function parse(text) {
    let out = cached.get(text);
    if (out === undefined) {
        if (cached.size >= CACHED_MAX)
            cached.clear();
        out = read(text);
        cached.set(text, out);
    }
    return out;
}

function read(text) {
    const m = FORM.exec(String(text));
    if (!m)
        return null;
    const [, sign, digits, suffix = ''] = m;
    const [whole, fraction = ''] = digits.split('.');
    let scale = DECIMAL[suffix];
    let form = 'decimal';
    if (BINARY[suffix]) {
        scale = BINARY[suffix];
        form = 'binary';
    } else if (scale === undefined) {
        form = 'exponent';
        const power = Number(suffix.slice(1));
        scale = power >= -9 ? 10n ** BigInt(power + 9) : 0n;
    }
    const unit = 10n ** BigInt(fraction.length);
    const product = BigInt(whole + fraction || '0') * scale;
    const nano = (product + unit - 1n) / unit; // rounded up, as the API does
    return { nano: sign === '-' ? -nano : nano, form };
}

function largest(nano, table) {
    let best = null;
    for (const [suffix, scale] of Object.entries(table))
        if (nano % scale === 0n && (best === null || scale > table[best]))
            best = suffix;
    return best;
}

function format({ nano, form }) {
    if (nano === 0n)
        return '0';
    if (form === 'binary' && nano % NANO === 0n) {
        const suffix = largest(nano, BINARY);
        return suffix === null ? String(nano / NANO) : `${nano / BINARY[suffix]}${suffix}`;
    }
    const suffix = largest(nano, DECIMAL);
    if (form !== 'exponent')
        return `${nano / DECIMAL[suffix]}${suffix}`;
    const power = { n: -9, u: -6, m: -3, '': 0, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18 }[suffix];
    return `${nano / DECIMAL[suffix]}${power ? `e${power}` : ''}`;
}

// The canonical form; null for what is no quantity.
function canonical(text) {
    const parsed = parse(text);
    if (parsed && parsed.text === undefined)
        parsed.text = format(parsed);
    return parsed && parsed.text;
}

function nano(text) {
    const parsed = parse(text);
    return parsed ? parsed.nano : 0n;
}

// The form of the first that has one, as the API's sums have it.
function sum(first, second) {
    const a = parse(first) || { nano: 0n, form: 'decimal' };
    const b = parse(second) || { nano: 0n, form: 'decimal' };
    return format({ nano: a.nano + b.nano, form: a.nano === 0n ? b.form : a.form });
}

module.exports = { parse, format, canonical, nano, sum, WORDS };
