// SPDX-License-Identifier: Apache-2.0
'use strict';

// MessagePack for tests, written from its specification and apart from what the server uses.
// An integer is a JavaScript number without a fraction, or a BigInt; a float is a Float; both
// come back as they went.

class Float {
    constructor(value) {
        this.value = value;
    }
}

function bytes(...parts) {
    return Buffer.concat(parts.map((p) => (Buffer.isBuffer(p) ? p : Buffer.from([p]))));
}

function number(method, size, value) {
    const b = Buffer.alloc(size);
    b[method](value);
    return b;
}

function packInteger(value) {
    const v = BigInt(value);
    if (v >= 0n && v < 128n)
        return bytes(Number(v));
    if (v < 0n && v >= -32n)
        return bytes(Number(v + 256n));
    return v >= 0n ? bytes(0xcf, number('writeBigUInt64BE', 8, v))
        : bytes(0xd3, number('writeBigInt64BE', 8, v));
}

function packHeader(small, medium, large, count) {
    if (count < 16)
        return bytes(small | count);
    return count < 65536 ? bytes(medium, number('writeUInt16BE', 2, count))
        : bytes(large, number('writeUInt32BE', 4, count));
}

function pack(value) {
    if (value === null)
        return bytes(0xc0);
    if (typeof value === 'boolean')
        return bytes(value ? 0xc3 : 0xc2);
    if (value instanceof Float)
        return bytes(0xcb, number('writeDoubleBE', 8, value.value));
    if (typeof value === 'number' && !Number.isInteger(value))
        return bytes(0xcb, number('writeDoubleBE', 8, value));
    if (typeof value === 'number' || typeof value === 'bigint')
        return packInteger(value);
    if (typeof value === 'string') {
        const text = Buffer.from(value);
        return text.length < 32 ? bytes(0xa0 | text.length, text)
            : bytes(0xdb, number('writeUInt32BE', 4, text.length), text);
    }
    if (Array.isArray(value))
        return bytes(packHeader(0x90, 0xdc, 0xdd, value.length), ...value.map(pack));
    const members = Object.entries(value).filter(([, v]) => v !== undefined);
    return bytes(packHeader(0x80, 0xde, 0xdf, members.length),
        ...members.flatMap(([k, v]) => [pack(k), pack(v)]));
}

class Reader {
    constructor(buffer) {
        this.buffer = buffer;
        this.pos = 0;
    }

    take(n) {
        if (this.pos + n > this.buffer.length)
            throw new Error(`cut off at ${this.pos}`);
        this.pos += n;
        return this.buffer.subarray(this.pos - n, this.pos);
    }

    integer(method, size) {
        const v = BigInt(this.take(size)[method]());
        return v >= Number.MIN_SAFE_INTEGER && v <= Number.MAX_SAFE_INTEGER ? Number(v) : v;
    }

    text(n) {
        return new TextDecoder('utf-8', { fatal: true }).decode(this.take(n));
    }

    list(n) {
        return Array.from({ length: n }, () => this.value());
    }

    map(n) {
        const out = {};
        for (let i = 0; i < n; i++) {
            const key = this.value();
            if (typeof key !== 'string')
                throw new Error('a key is no string');
            out[key] = this.value();
        }
        return out;
    }

    value() {
        const type = this.take(1)[0];
        if (type < 0x80)
            return type;
        if (type < 0x90)
            return this.map(type & 15);
        if (type < 0xa0)
            return this.list(type & 15);
        if (type < 0xc0)
            return this.text(type & 31);
        if (type >= 0xe0)
            return type - 256;
        switch (type) {
        case 0xc0: return null;
        case 0xc2: return false;
        case 0xc3: return true;
        case 0xca: return new Float(this.take(4).readFloatBE());
        case 0xcb: return new Float(this.take(8).readDoubleBE());
        case 0xcc: return this.integer('readUInt8', 1);
        case 0xcd: return this.integer('readUInt16BE', 2);
        case 0xce: return this.integer('readUInt32BE', 4);
        case 0xcf: return this.integer('readBigUInt64BE', 8);
        case 0xd0: return this.integer('readInt8', 1);
        case 0xd1: return this.integer('readInt16BE', 2);
        case 0xd2: return this.integer('readInt32BE', 4);
        case 0xd3: return this.integer('readBigInt64BE', 8);
        case 0xd9: return this.text(this.take(1).readUInt8());
        case 0xda: return this.text(this.take(2).readUInt16BE());
        case 0xdb: return this.text(this.take(4).readUInt32BE());
        case 0xdc: return this.list(this.take(2).readUInt16BE());
        case 0xdd: return this.list(this.take(4).readUInt32BE());
        case 0xde: return this.map(this.take(2).readUInt16BE());
        case 0xdf: return this.map(this.take(4).readUInt32BE());
        default: throw new Error(`type 0x${type.toString(16)} at ${this.pos - 1}`);
        }
    }
}

function unpack(buffer) {
    const r = new Reader(buffer);
    const v = r.value();
    if (r.pos !== buffer.length)
        throw new Error(`${buffer.length - r.pos} bytes too many`);
    return v;
}

// What JSON has no two kinds of: floats as plain numbers.
function plain(value) {
    if (value instanceof Float)
        return value.value;
    if (Array.isArray(value))
        return value.map(plain);
    if (value && typeof value === 'object')
        return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, plain(v)]));
    return value;
}

module.exports = { Float, pack, plain, unpack };
