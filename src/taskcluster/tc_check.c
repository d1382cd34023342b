/* SPDX-License-Identifier: Apache-2.0 */

/* The identifiers of Taskcluster's queue, as its schemas and the parameters of its paths have
 * them. */

#include <ctype.h>

#include "base/array.h"
#include "taskcluster/tc_internal.h"

#define IDENTIFIER_MAX 38
#define SLUGID_LEN     22

static bool is_alphanumeric(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_word(char c)
{
    return is_alphanumeric(c) || c == '-' || c == '_';
}

static bool all_words(struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!is_word(s.at[i]))
            return false;
    return true;
}

/* A random UUID in base64url: two of its characters hold the version and the variant, and the
 * last one has four bits only. */
bool tc_is_slugid(struct str s)
{
    return s.len == SLUGID_LEN && all_words(s) && s.at[8] >= 'Q' && s.at[8] <= 'T' &&
           memchr("CGKOSWaeimquy26-", s.at[10], 16) && memchr("AQgw", s.at[21], 4);
}

bool tc_is_identifier(struct str s)
{
    return s.len >= 1 && s.len <= IDENTIFIER_MAX && all_words(s);
}

bool tc_is_worker_type(struct str s)
{
    if (s.len < 1 || s.len > IDENTIFIER_MAX || s.at[0] < 'a' || s.at[0] > 'z' ||
        s.at[s.len - 1] == '-')
        return false;
    for (size_t i = 0; i < s.len; i++)
        if (!(s.at[i] >= 'a' && s.at[i] <= 'z') && !(s.at[i] >= '0' && s.at[i] <= '9') &&
            s.at[i] != '-')
            return false;
    return true;
}

bool tc_is_task_queue_id(struct str s)
{
    const char *slash = s.len ? memchr(s.at, '/', s.len) : NULL;
    if (!slash)
        return false;
    size_t n = (size_t)(slash - s.at);
    return tc_is_identifier((struct str){s.at, n}) &&
           tc_is_worker_type((struct str){slash + 1, s.len - n - 1});
}

/* Unlike a task queue's, its second part may be any identifier. */
static bool is_worker_pool_id(struct str s)
{
    const char *slash = s.len ? memchr(s.at, '/', s.len) : NULL;
    size_t n = slash ? (size_t)(slash - s.at) : 0;
    return slash && tc_is_identifier((struct str){s.at, n}) &&
           tc_is_identifier((struct str){slash + 1, s.len - n - 1});
}

/* As the reference: ^[1-9]*[0-9]+$ */
bool tc_is_run_id(struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.at[i] < '0' || s.at[i] > '9')
            return false;
    return s.len > 0;
}

static bool is_printable(struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.at[i] < 0x20 || s.at[i] > 0x7e)
            return false;
    return s.len > 0;
}

/* "project.branch.latest": parts of these characters with dots between them. */
static bool is_index_path(struct str s)
{
    bool part = false;
    for (size_t i = 0; i < s.len; i++) {
        bool dot = s.at[i] == '.';
        if (dot ? !part : !isalnum((unsigned char)s.at[i]) && !strchr("_!~*'()%-", s.at[i]))
            return false;
        part = !dot;
    }
    return part && s.len <= 255;
}

#define INDEX_PATH                                                                                 \
    "up to 255 characters: names of letters, digits and any of _!~*'()%-, with dots between them"

bool tc_check_param(struct str name, struct str value, const char **must_be)
{
    static const struct {
        const char *name;
        bool (*allows)(struct str value);
        const char *must_be;
    } params[] = {
        {"taskId", tc_is_slugid, "a slugid: 22 characters of a random UUID in URL-safe base64"},
        {"taskGroupId", tc_is_slugid,
         "a slugid: 22 characters of a random UUID in URL-safe base64"},
        {"taskQueueId", tc_is_task_queue_id, "<provisionerId>/<workerType>"},
        {"workerPoolId", is_worker_pool_id, "<provisionerId>/<workerType>"},
        {"provisionerId", tc_is_identifier, "1 to 38 letters, digits, '-' and '_'"},
        {"workerType", tc_is_identifier, "1 to 38 letters, digits, '-' and '_'"},
        {"workerGroup", tc_is_identifier, "1 to 38 letters, digits, '-' and '_'"},
        {"workerId", tc_is_identifier, "1 to 38 letters, digits, '-' and '_'"},
        {"runId", tc_is_run_id, "a whole number"},
        {"name", is_printable, "printable ASCII characters"},
        {"indexPath", is_index_path, INDEX_PATH},
        {"namespace", is_index_path, INDEX_PATH},
    };
    for (size_t i = 0; i < COUNT(params); i++) {
        if (!str_eq(name, str_from(params[i].name)))
            continue;
        *must_be = params[i].must_be;
        return params[i].allows(value);
    }
    return true;
}
