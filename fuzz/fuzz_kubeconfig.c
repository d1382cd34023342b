/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "base/must.h"
#include "base/utf8.h"
#include "kube/kube_answer.h"
#include "kube/kube_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The text as a kubeconfig, and as the body of a refusal. */

static void try_config(struct str text)
{
    struct kube_config c;
    struct err e = kube_config_read(text, "/nonexistent/config", NULL, &c);
    if (e.code != ERR_OK) {
        must(e.msg[0] && !c.arena.head);
        return;
    }
    must(c.server && c.context && (!c.user_name || c.user_name[0]));
    must(!(c.ca.len && c.ca_file));
    kube_config_fini(&c);
}

static void try_status(struct str text, long status)
{
    struct arena a = {0};
    struct kube_answer answer;
    kube_answer_read(status, text, &a, &answer);
    must(answer.reason != KUBE_ANSWER_OK && answer.message.len);
    must(utf8_check(answer.message) == answer.message.len);
    must(answer.cause_count <= KUBE_ANSWER_CAUSES_MAX);
    arena_fini(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    try_config(text);
    try_status(text, 403);
    try_status(text, 503);
    struct arena a = {0};
    struct kube_answer answer;
    kube_answer_read_status(text, &a, &answer);
    must(answer.reason != KUBE_ANSWER_OK);
    arena_fini(&a);
    (void)kube_answer_retry_after(text, text, (instant){0});
    return 0;
}
