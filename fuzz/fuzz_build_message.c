/* SPDX-License-Identifier: Apache-2.0 */

/* Messages of any kind: what is accepted has a build or a cache, and its verify message is read
 * again as the same build. */

#include "base/must.h"
#include "builds/build_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_again(const struct build_message *m, struct arena *a)
{
    struct buf b = {0};
    struct build_message again;
    must(m->build.len > 0 && m->config && m->config_json.len > 0);
    build_message_verify(&b, m->config_json);
    must(build_message_read(buf_view(&b), a, &again).code == ERR_OK);
    must(again.job == BUILD_VERIFY_POD && str_eq(again.build, m->build));
    must(str_eq(again.config_json, m->config_json) && str_eq(again.token, m->token));
    buf_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a = {0};
    struct build_message m;
    struct str body = {(const char *)data, size};
    if (build_message_read(body, &a, &m).code == ERR_OK && m.job != BUILD_CLEAR)
        check_again(&m, &a);
    arena_fini(&a);
    return 0;
}
