/* SPDX-License-Identifier: Apache-2.0 */
#include "core/culprit.h"

#include <string.h>

#include "base/buf.h"
#include "base/closest.h"
#include "base/decimal.h"
#include "base/must.h"

#define SIGNALS_FROM 128 /* shells and containers give the signal n the exit code 128 + n */

static const struct {
    const char *name, *sentence;
    uint32_t free;
} culprits[CULPRIT_COUNT] = {
#define CULPRIT(id, name, free, sentence) [CULPRIT_##id] = {name, sentence, free},
#include "core/culprits.def"
#undef CULPRIT
};

const char *culprit_name(enum culprit c)
{
    must(c < CULPRIT_COUNT);
    return culprits[c].name;
}

const char *culprit_sentence(enum culprit c)
{
    must(c > CULPRIT_NONE && c < CULPRIT_COUNT);
    return culprits[c].sentence;
}

struct culprit_bounds culprit_bounds_default(void)
{
    struct culprit_bounds b = {0};
    for (int i = CULPRIT_NONE + 1; i < CULPRIT_COUNT; i++)
        b.free[i] = culprits[i].free;
    return b;
}

bool culprit_parse(struct str name, enum culprit *c)
{
    for (int i = CULPRIT_NONE + 1; i < CULPRIT_COUNT; i++)
        if (str_eq(name, str_from(culprits[i].name))) {
            *c = (enum culprit)i;
            return true;
        }
    return false;
}

struct str culprit_closest(struct str name)
{
    struct closest c = closest_to(name);
    for (int i = CULPRIT_NONE + 1; i < CULPRIT_COUNT; i++)
        closest_offer(&c, str_from(culprits[i].name));
    return c.word;
}

static struct err read_bound(struct str part, struct culprit_bounds *b)
{
    const char *equals = part.len ? memchr(part.at, '=', part.len) : NULL;
    size_t len = equals ? (size_t)(equals - part.at) : part.len;
    struct str name = {part.at, len}, number = {part.at + len + 1, part.len - len - 1};
    enum culprit c;
    int64_t n;
    if (!equals)
        return err_make(ERR_BAD_VALUE, "'%.*s' is not of the form CULPRIT=COUNT", STR_ARG(part));
    if (!culprit_parse(name, &c)) {
        struct str meant = culprit_closest(name);
        return meant.len ? err_make(ERR_BAD_VALUE, "unknown culprit '%.*s'; did you mean '%.*s'?",
                                    STR_ARG(name), STR_ARG(meant))
                         : err_make(ERR_BAD_VALUE, "unknown culprit '%.*s'", STR_ARG(name));
    }
    if (c == CULPRIT_JOB)
        return err_make(ERR_BAD_VALUE, "a job is always charged for its own failures");
    if (!decimal_digits(number, 7, &n) || n > CULPRIT_FREE_MAX)
        return err_make(ERR_BAD_VALUE, "'%.*s' is not a whole number from 0 to %d", STR_ARG(number),
                        CULPRIT_FREE_MAX);
    b->free[c] = (uint32_t)n;
    return err_none();
}

struct err culprit_bounds_read(struct str text, struct culprit_bounds *b)
{
    while (text.len) {
        const char *comma = memchr(text.at, ',', text.len);
        size_t len = comma ? (size_t)(comma - text.at) : text.len;
        TRY(read_bound((struct str){text.at, len}, b));
        len += comma != NULL;
        text = (struct str){text.at + len, text.len - len};
    }
    return err_none();
}

struct sign {
    const char *name; /* of a signal */
    enum culprit culprit;
    const char *evidence;
};

static const struct sign exceptions[OUTCOME_COUNT] = {
#define EXCEPTION(outcome, culprit, evidence)                                                      \
    [OUTCOME_##outcome] = {NULL, CULPRIT_##culprit, evidence},
#include "core/culprit_signs.def"
#undef EXCEPTION
};

static const struct sign conditions[CONDITION_COUNT] = {
#define CONDITION(condition, culprit, evidence)                                                    \
    [CONDITION_##condition] = {NULL, CULPRIT_##culprit, evidence},
#include "core/culprit_signs.def"
#undef CONDITION
};

static const struct sign *sign_of_signal(int32_t signal)
{
    switch (signal) {
#define SIGNAL(number, name, culprit, evidence)                                                    \
    case number: {                                                                                 \
        static const struct sign sign = {name, CULPRIT_##culprit, evidence};                       \
        return &sign;                                                                              \
    }
#include "core/culprit_signs.def"
#undef SIGNAL
    default:
        return NULL;
    }
}

static const struct sign *sign_of_exit(int32_t code)
{
    switch (code) {
#define EXIT(code, culprit, evidence)                                                              \
    case code: {                                                                                   \
        static const struct sign sign = {NULL, CULPRIT_##culprit, evidence};                       \
        return &sign;                                                                              \
    }
#include "core/culprit_signs.def"
#undef EXIT
    default:
        return NULL;
    }
}

/* How the process ended, or its first container that failed. */
struct process_end {
    enum condition condition;
    int32_t exit_code, signal;
};

static struct process_end end_of(const struct failure *f)
{
    struct process_end end = {f->condition, f->exit_code, f->signal};
    for (size_t i = 0; i < f->container_count; i++) {
        const struct container_result *c = &f->containers[i];
        if (!c->exit_code && !c->signal && !c->condition)
            continue;
        if (!end.condition)
            end.condition = c->condition;
        if (!end.exit_code && !end.signal) {
            end.exit_code = c->exit_code;
            end.signal = c->signal;
        }
        break;
    }
    return end;
}

static void blame(struct failure *f, enum culprit c, struct str evidence)
{
    f->culprit = c;
    f->culprit_evidence = evidence;
}

static void blame_in_words(struct failure *f, enum culprit c, struct buf *words, struct arena *a)
{
    blame(f, c, arena_copy(a, buf_view(words)));
    buf_fini(words);
}

static bool judge_signal(struct failure *f, const struct process_end *end, struct arena *a)
{
    bool by_code = !end->signal && end->exit_code > SIGNALS_FROM;
    int32_t signal = by_code ? end->exit_code - SIGNALS_FROM : end->signal;
    const struct sign *sign = sign_of_signal(signal);
    if (!sign)
        return false;
    struct buf words = {0};
    if (by_code)
        buf_print(&words, "exit code %d, ", end->exit_code);
    buf_print(&words, "%s: %s", sign->name, sign->evidence);
    blame_in_words(f, sign->culprit, &words, a);
    return true;
}

static void judge_exit(struct failure *f, const struct process_end *end, struct arena *a)
{
    const struct sign *sign = sign_of_exit(end->exit_code);
    struct buf words = {0};
    if (sign)
        buf_print(&words, "exit code %d, %s", end->exit_code, sign->evidence);
    else if (end->exit_code)
        buf_print(&words, "it ended with exit code %d", end->exit_code);
    else if (end->signal)
        buf_print(&words, "signal %d ended it", end->signal);
    else
        buf_lit(&words, "it failed by itself, and nothing points to anybody else");
    blame_in_words(f, sign ? sign->culprit : CULPRIT_JOB, &words, a);
}

static bool judge_category(struct failure *f, struct arena *a)
{
    enum culprit c;
    if (!culprit_parse(f->category, &c))
        return false;
    struct buf words = {0};
    buf_print(&words, "its failure category is %s", culprit_name(c));
    blame_in_words(f, c, &words, a);
    return true;
}

static void judge_condition(struct failure *f, enum condition c, struct arena *a)
{
    const struct sign *sign = &conditions[c];
    struct buf words = {0};
    must(sign->culprit);
    buf_print(&words, "condition %s: %s", job_condition_name(c), sign->evidence);
    blame_in_words(f, sign->culprit, &words, a);
}

void culprit_judge(struct failure *f, enum outcome outcome, bool away, struct arena *a)
{
    struct process_end end = end_of(f);
    if (f->culprit) {
        if (!f->culprit_evidence.len)
            f->culprit_evidence = STR("its worker says so");
        return;
    }
    if (away && outcome == OUTCOME_EXPIRED)
        blame(f, CULPRIT_SERVER, STR("the lease ran out while the server was away"));
    else if (exceptions[outcome].culprit)
        blame(f, exceptions[outcome].culprit, str_from(exceptions[outcome].evidence));
    else if (end.condition)
        judge_condition(f, end.condition, a);
    else if (!judge_category(f, a) && !judge_signal(f, &end, a))
        judge_exit(f, &end, a);
}
