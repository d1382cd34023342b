/* SPDX-License-Identifier: Apache-2.0 */

/* The first byte chooses what the rest is: a token as it is kept, the value of an Authorization
 * header, or a pattern of queues and, on a second line, a name. */

#include <stdint.h>
#include <stdlib.h>

#include "access/tokens.h"
#include "base/glob.h"
#include "base/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const instant now = {INT64_C(1700000000000)};

/* What was read is written in one form, and grants the same when it is read again. */
static void try_record(struct str text)
{
    struct token *one, *again;
    struct buf first = {0}, second = {0};
    if (token_read(text, &one).code != ERR_OK)
        return;
    must(one->roles && one->rights.queues.count <= RIGHTS_PATTERNS_MAX);
    must(!(one->roles & 1u << ROLE_ADMIN) || one->rights.queues.count == 0);
    token_write(one, &first);
    must(token_read(buf_view(&first), &again).code == ERR_OK);
    token_write(again, &second);
    must(str_eq(buf_view(&first), buf_view(&second)));
    must(one->rights.set == again->rights.set);
    token_free(one);
    token_free(again);
    buf_fini(&first);
    buf_fini(&second);
}

static struct tokens *some(void)
{
    static struct tokens *all;
    static const struct str record =
        STR("{\"v\":1,\"id\":\"0123456789abcdef\",\"hash\":\"e3b0c44298fc1c149afbf4c8996fb924"
            "27ae41e4649b934ca495991b7852b855\",\"roles\":[\"admin\"],\"queues\":[],"
            "\"payloads\":false,\"name\":\"\"}");
    struct token *one;
    if (!all) {
        all = tokens_new();
        must(token_read(record, &one).code == ERR_OK);
        tokens_add(all, one);
    }
    return all;
}

/* Nobody knows a text with that hash: it is the hash of nothing, and nothing is no token. */
static void try_header(struct str value)
{
    struct str text;
    struct token *one;
    if (tokens_bearer(value, &text)) {
        must(text.len < value.len);
        must(tokens_check(some(), text, now, &one).code == ERR_BAD_CREDENTIALS);
    }
}

/* The same by its definition, for short texts. */
static bool matches(struct str pattern, struct str name)
{
    if (pattern.len == 0)
        return name.len == 0;
    struct str rest = {pattern.at + 1, pattern.len - 1};
    if (pattern.at[0] != '*')
        return name.len && name.at[0] == pattern.at[0] &&
               matches(rest, (struct str){name.at + 1, name.len - 1});
    for (size_t i = 0; i <= name.len; i++)
        if (matches(rest, (struct str){name.at + i, name.len - i}))
            return true;
    return false;
}

static void try_pattern(struct str text)
{
    const char *end = text.len ? memchr(text.at, '\n', text.len) : NULL;
    if (!end)
        return;
    struct str pattern = {text.at, (size_t)(end - text.at)};
    struct str name = {end + 1, text.len - pattern.len - 1};
    bool is = glob_matches(pattern, name);
    if (pattern.len <= 8 && name.len <= 12)
        must(is == matches(pattern, name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const tries[])(struct str) = {try_record, try_header, try_pattern};
    if (size == 0)
        return 0;
    tries[data[0] % 3]((struct str){(const char *)data + 1, size - 1});
    return 0;
}
