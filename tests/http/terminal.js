// SPDX-License-Identifier: Apache-2.0
'use strict';

// Real terminals for `tenax top`: tmux runs it, types, and shows its screen.

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { BIN, makeDir } = require('./harness');

const DEADLINE_MS = 120000; // ends what hangs
const dir = makeDir();
const socket = path.join(dir, 'tmux');
let names = 0;

function tmux(...args) {
    return execFileSync('tmux', ['-S', socket, '-f', '/dev/null', ...args],
        { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

// One `tenax top` in a terminal of its own.
class Screen {
    constructor(url, { width = 80, height = 24, env = 'NO_COLOR=1' } = {}) {
        this.name = `t${++names}`;
        // remain-on-exit: how it ended is to be seen, too.
        tmux('new-session', '-d', '-s', this.name, '-x', `${width}`, '-y', `${height}`,
            `stty -echo; read go; env ${env} ${BIN} top --url ${url}; echo "ended with $?"; read x`);
        tmux('send-keys', '-t', this.name, 'Enter');
    }

    text() {
        return tmux('capture-pane', '-p', '-t', this.name);
    }

    keys(...keys) {
        tmux('send-keys', '-t', this.name, ...keys);
    }

    type(text) {
        tmux('send-keys', '-l', '-t', this.name, text);
    }

    // Waits until the screen matches, and returns it.
    async shows(...patterns) {
        const end = Date.now() + DEADLINE_MS;
        for (;;) {
            const text = this.text();
            if (patterns.every((p) => p.test(text)))
                return text;
            assert.ok(Date.now() < end, `the screen never showed ${patterns}:\n${text}`);
            await new Promise((resolve) => setTimeout(resolve, 50));
        }
    }

    resize(width, height) {
        tmux('resize-window', '-t', this.name, '-x', `${width}`, '-y', `${height}`);
    }

    close() {
        tmux('kill-session', '-t', this.name);
    }
}

// So that tmux goes on between two screens: one that begins while it ends would find none.
function openTerminals() {
    tmux('new-session', '-d', '-s', 'rest', 'read x');
}

function closeTerminals() {
    tmux('kill-server');
    fs.rmSync(dir, { recursive: true, force: true });
}

module.exports = { Screen, closeTerminals, openTerminals };
