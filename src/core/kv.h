/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_KV_H
#define CORE_KV_H

/* Entries that a front end keeps beside the jobs: what it knows of its workers, its files, its
 * messages. Each lies under a key, in a space that is its front end's. They are on disk only, are
 * committed with all else of their turn, and are gone when their time is over. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "base/str.h"
#include "base/units.h"

#define KV_SPACE_MAX   64
#define KV_KEY_MAX     1024
#define KV_VALUE_MAX   65536
#define KV_CHANGES_MAX 64
#define KV_PAGE_MAX    1000
/* How the name of a space begins whose entries a removal of everything leaves: they belong to the
 * server, not to its jobs. It is the last of the characters that a name may have. */
#define KV_LASTING '~'

struct kv_entry {
    struct str space; /* 1 to 64 printable ASCII characters without spaces */
    struct str key;   /* 1 to 1024 bytes of any kind */
    struct str value; /* up to 64 KiB of any kind */
    instant expires;  /* from then on it is absent, and soon deleted; or none */
    uint64_t version; /* another one with each put, and never again; 0: there is no such entry */
};

/* What must hold of an entry before it is changed. */
enum kv_condition {
    KV_ANY,
    KV_ABSENT,  /* there is none */
    KV_VERSION, /* its version is that of the change */
};

struct kv_change {
    struct kv_entry entry; /* to be put; its version is what KV_VERSION asks for */
    enum kv_condition when;
    bool remove; /* the entry is removed instead, whether it is there or not */
};

struct kv_artifact {
    struct id job;
    uint32_t run;
    struct str name;
};

/* CMD_KV_PUT: all of them or, with ERR_CONFLICT, none. */
struct kv_put {
    const struct kv_change *changes; /* each of another entry */
    size_t count;                    /* 1 to KV_CHANGES_MAX */
    /* With them it is told, as an event of its job, that a run left a file; NULL: nothing is. */
    const struct kv_artifact *artifact;
    bool sync; /* on disk before the reply, also where commits are not */
};

/* CMD_KV_READ, CMD_KV_LIST, CMD_KV_REMOVE. */
struct kv_query {
    struct str space; /* REMOVE: empty means all but KV_LASTING, with an empty key and prefix */
    struct str key;
    bool prefix;      /* REMOVE: all whose keys begin so, a bounded number at a time */
    struct str after; /* LIST: keys after this one; empty: from the first */
    uint32_t limit;   /* LIST: at most KV_PAGE_MAX. A page of large values ends earlier */
};

/* ERR_BAD_VALUE, ERR_TOO_LARGE. */
NODISCARD struct err kv_check_put(const struct kv_put *put);
NODISCARD struct err kv_check_query(const struct kv_query *query);

#endif
