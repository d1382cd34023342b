/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_STORE_CONTRACT_H
#define TESTS_STORE_CONTRACT_H

/* The promises of every store (src/store/store.h), as tests that each run on a new store. */

#include "store/store.h"

/* Runs them on stores that open(dir) creates in an empty folder; returns the number of failures. */
int contract_run(const char *name, struct store *(*open)(const char *dir));

#endif
