/* SPDX-License-Identifier: Apache-2.0 */
#include "core/bucket.h"

#include "base/must.h"

static int64_t brim(const struct rate *r)
{
    return (int64_t)r->burst * r->per.ms;
}

struct bucket bucket_full(const struct rate *r, instant now)
{
    return (struct bucket){rate_is_set(r) ? brim(r) : 0, now};
}

void bucket_refill(struct bucket *b, const struct rate *r, instant now)
{
    int64_t room = brim(r) - b->level;
    int64_t passed = now.ms - b->at.ms;
    b->at = now;
    if (passed <= 0)
        return;
    /* Divided, not multiplied: a jump of the clock may be of any size. */
    b->level += passed > room / r->count ? room : passed * r->count;
}

int64_t bucket_tokens(const struct bucket *b, const struct rate *r)
{
    return b->level / r->per.ms;
}

void bucket_take(struct bucket *b, const struct rate *r, uint32_t count)
{
    int64_t parts = (int64_t)count * r->per.ms;
    must(b->level >= parts);
    b->level -= parts;
}

instant bucket_next(const struct bucket *b, const struct rate *r, uint32_t count)
{
    must(count <= r->burst);
    int64_t missing = (int64_t)count * r->per.ms - b->level;
    if (missing <= 0)
        return b->at;
    return instant_add(b->at, (span){(missing + r->count - 1) / r->count});
}

void bucket_change(struct bucket *b, const struct rate *from, const struct rate *to, instant now)
{
    if (!rate_is_set(from) || !rate_is_set(to)) {
        *b = bucket_full(to, now);
        return;
    }
    bucket_refill(b, from, now);
    int64_t tokens = b->level / from->per.ms, part = b->level % from->per.ms;
    if (tokens >= to->burst)
        b->level = brim(to);
    else /* the product stays below 2^63: both are at most RATE_PER_MAX */
        b->level = tokens * to->per.ms + part * to->per.ms / from->per.ms;
}

void bucket_repair(struct bucket *b, const struct rate *r, instant now)
{
    if (b->level < 0)
        b->level = 0;
    if (b->level > brim(r))
        b->level = brim(r);
    if (b->at.ms > now.ms) /* the clock went back over a restart */
        b->at = now;
}
