// SPDX-License-Identifier: Apache-2.0
'use strict';

// An authority of its own for each double, made by openssl: the server's certificate, and one for
// every client that asks.

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

class Authority {
    constructor(dir) {
        this.dir = dir;
        this.number = 0;
        this.ca = this.issue('/CN=double-ca', { authority: true });
    }

    // {key, cert} in PEM, and the files they are in.
    issue(subject, { authority = false, names, days = 1 } = {}) {
        const base = path.join(this.dir, `certificate-${++this.number}`);
        const [keyFile, certFile] = [`${base}.key`, `${base}.crt`];
        const args = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256',
            '-nodes', '-keyout', keyFile, '-out', certFile, '-days', String(days),
            '-subj', subject];
        if (authority)
            args.push('-addext', 'keyUsage=critical,keyCertSign,cRLSign');
        else
            args.push('-CA', this.ca.certFile, '-CAkey', this.ca.keyFile,
                '-addext', 'basicConstraints=critical,CA:FALSE');
        if (names)
            args.push('-addext', `subjectAltName=${names}`);
        execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'] });
        return { keyFile, certFile, key: fs.readFileSync(keyFile, 'utf8'),
            cert: fs.readFileSync(certFile, 'utf8') };
    }

    // days: below 0 it has expired.
    server(host, { days = 1 } = {}) {
        const names = `IP:${host},DNS:localhost,DNS:kubernetes`;
        const issued = this.issue('/CN=kube-apiserver', { names });
        return days > 0 ? issued : this.again(issued, days, names);
    }

    // The same certificate for another time: for one that is past only this openssl command will.
    again({ keyFile, certFile, key }, days, names) {
        const request = `${certFile}.csr`;
        const extensions = `${certFile}.ext`;
        const quiet = { stdio: ['ignore', 'ignore', 'pipe'] };
        fs.writeFileSync(extensions, `subjectAltName=${names}\n`);
        execFileSync('openssl', ['req', '-new', '-key', keyFile, '-subj', '/CN=kube-apiserver',
            '-out', request], quiet);
        execFileSync('openssl', ['x509', '-req', '-in', request, '-CA', this.ca.certFile, '-CAkey',
            this.ca.keyFile, '-set_serial', '77', '-days', String(days), '-extfile', extensions,
            '-out', certFile], quiet);
        return { keyFile, certFile, key, cert: fs.readFileSync(certFile, 'utf8') };
    }

    client(name, groups = []) {
        return this.issue(`/CN=${name}${groups.map((group) => `/O=${group}`).join('')}`);
    }
}

module.exports = { Authority };
