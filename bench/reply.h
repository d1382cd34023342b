/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_REPLY_H
#define BENCH_REPLY_H

/* The replies of beanstalkd and of Redis, as far as the generator asks for any: one reply from the
 * front of what has arrived. Pure. */

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum reply_kind {
    REPLY_MORE,    /* incomplete; nothing is used */
    REPLY_BROKEN,  /* not the protocol, or longer than any reply may be */
    REPLY_OK,      /* an acknowledgement without a number: USING, WATCHING, +OK */
    REPLY_STORED,  /* INSERTED; number: the id */
    REPLY_JOB,     /* RESERVED; number: the id, text: the job */
    REPLY_DELETED, /* DELETED */
    REPLY_NUMBER,  /* Redis: an integer */
    REPLY_DATA,    /* text: what follows OK of beanstalkd, or a string of Redis */
    REPLY_NONE,    /* Redis: null */
    REPLY_REFUSED, /* any other word of beanstalkd, an error of Redis; text: its line */
};

struct reply {
    enum reply_kind kind;
    uint64_t number;
    struct str text; /* in the input */
};

/* Each returns the number of bytes used: 0 if the reply is incomplete or broken. */
size_t reply_beanstalkd(struct str in, struct reply *r);
size_t reply_redis(struct str in, struct reply *r);

/* The value of a line "name: number" of the text that stats of beanstalkd are; UINT64_MAX if there
 * is none. */
uint64_t reply_stat(struct str text, struct str name);

#endif
