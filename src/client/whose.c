/* SPDX-License-Identifier: Apache-2.0 */
#include "client/whose.h"

#include <string.h>

#include "client/view.h"

static bool has_text(struct str object, const char *key)
{
    struct str value = view_get(object, key);
    return value.len > 2 && *value.at == '"';
}

/* In lower case with underscores, as base/errors.def has them. */
static bool has_code(struct str object)
{
    struct str code = view_get(object, "code");
    for (size_t i = 1; i + 1 < code.len; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyz_0123456789", code.at[i]))
            return false;
    return true;
}

bool whose_refusal(struct str body)
{
    struct str object;
    if (!body.len || view_check(body, &object).code != ERR_OK)
        return false;
    /* What became of each of many: renewals, successes. */
    if (view_get(object, "jobs").len || view_get(object, "not_found").len)
        return true;
    /* The health of a standby: 503 while it hears of no owner. */
    if (has_text(object, "status") && has_text(object, "role"))
        return true;
    bool ours = has_text(object, "error") && has_code(object);
    return has_text(object, "code") && (ours || has_text(object, "message"));
}

bool whose_azure_refusal(struct str body)
{
    static const struct str mark = {"<Code>", 6};
    return body.len && memmem(body.at, body.len, mark.at, mark.len);
}
