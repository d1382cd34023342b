/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "base/utf8.h"
#include "core/fingerprint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input is the message of a failure. It lies in memory of its own, so that a look beyond its
 * end is noticed. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char room[FINGERPRINT_MESSAGE_MAX], again[FINGERPRINT_MESSAGE_MAX];
    char digits[FINGERPRINT_TEXT_LEN], *copy = malloc(size ? size : 1);
    uint64_t back;
    must(copy);
    if (size)
        memcpy(copy, data, size);
    struct failure f = {.message = {copy, size}};
    const struct job job = {.queue = STR("q"), .type = STR("t")};

    struct str simple = fingerprint_message(f.message, room);
    must(simple.len <= FINGERPRINT_MESSAGE_MAX);
    for (size_t i = 0; i < simple.len; i++)
        must(simple.at[i] < '0' || simple.at[i] > '9');
    must(simple.len == 0 || (simple.at[0] != ' ' && simple.at[simple.len - 1] != ' '));
    if (utf8_check(f.message) == size && size <= FINGERPRINT_LOOK_MAX)
        must(utf8_check(simple) == simple.len);
    must(str_eq(fingerprint_message(f.message, again), simple));

    uint64_t fingerprint = fingerprint_of(&job, OUTCOME_FAILED, &f);
    fingerprint_format(fingerprint, digits);
    must(fingerprint_parse((struct str){digits, sizeof digits}, &back) && back == fingerprint);
    free(copy);
    return 0;
}
