/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_STORE_CONTRACT_H
#define TESTS_STORE_CONTRACT_H

/* What every store promises (src/store/store.h), as tests that each run on a new store. */

#include "store/store.h"

/* Runs them on stores that open(dir) makes in an empty folder; the number of failures. */
int contract_run(const char *name, struct store *(*open)(const char *dir));

#endif
