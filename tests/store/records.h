/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_STORE_RECORDS_H
#define TESTS_STORE_RECORDS_H

/* Shared by the tests of records: a batch as the state of a test, a state without anything that may
 * be left out, and bytes in hexadecimal digits. */

#include <stdio.h>
#include <string.h>

#include "core/job.h"
#include "store/batch.h"
#include "store/cm.h"

static inline int records_set_up(void **state)
{
    *state = test_calloc(1, sizeof(struct batch));
    return 0;
}

static inline int records_tear_down(void **state)
{
    batch_fini(*state);
    test_free(*state);
    return 0;
}

static inline struct job_state records_bare_state(void)
{
    return (struct job_state){
        .status = STATUS_READY,
        .ready_at = INSTANT_NONE,
        .dequeued_at = INSTANT_NONE,
        .failed_at = INSTANT_NONE,
        .completed_at = INSTANT_NONE,
        .purge_at = INSTANT_NONE,
        .lease_end = INSTANT_NONE,
    };
}

/* The bytes, in room, which must have space for them. */
static inline struct str records_from_hex(const char *hex, char *room)
{
    size_t n = strlen(hex) / 2;
    for (size_t i = 0; i < n; i++) {
        unsigned byte;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        room[i] = (char)byte;
    }
    return (struct str){room, n};
}

#endif
