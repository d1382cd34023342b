/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_BACKEND_CONTRACT_H
#define TESTS_BACKEND_CONTRACT_H

/* The promises of every backend (src/backend/backend.h), as tests that each run on a new one. They
 * use only the interface and the functions of this table. */

#include "backend/backend.h"

/* How to drive a backend. A rig is one backend with its storage and its clock. */
struct contract_driver {
    const char *name;
    /* A backend on empty storage. */
    void *(*open)(const struct backend_settings *settings);
    void (*close)(void *rig);
    /* The current one: a restart or a crash makes another. */
    struct backend *(*backend)(void *rig);
    /* One round of its loop, including backend_turn. */
    void (*turn)(void *rig);
    instant (*now)(void *rig);
    void (*advance)(void *rig, span by);
    /* Stops it in order and opens another on what it stored. */
    void (*restart)(void *rig);
    /* The same without stopping in order: what was not durable is lost, and nobody is answered. */
    void (*crash)(void *rig);
    /* While on, commits stay in progress and do not become durable. */
    void (*hold)(void *rig, bool on);
    /* While on, commits fail for lack of space. NULL: that cannot happen to it. */
    void (*fill)(void *rig, bool on);
};

/* The number of failures. */
int contract_run(const struct contract_driver *driver);

#endif
