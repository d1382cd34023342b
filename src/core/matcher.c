/* SPDX-License-Identifier: Apache-2.0 */
#include "core/matcher.h"

#include "base/array.h"
#include "core/builtin_category.h"
#include "core/culprit.h"

/* A person reads the first few of a long list, and the start of a long pattern. */
#define WORDS_LISTED  4
#define WORDS_PATTERN 40

/* --- holding --- */

static bool is_looked_at(const struct matcher *m, const struct container_result *c)
{
    return (!c->init || m->include_init) &&
           (m->container.len == 0 || str_eq(c->name, m->container));
}

static bool has_failed(const struct container_result *c)
{
    return c->exit_code != 0 || c->signal != 0 || c->condition != CONDITION_NONE;
}

static const struct container_result *first_failed(const struct matcher *m, const struct failure *f)
{
    for (size_t i = 0; i < f->container_count; i++) {
        const struct container_result *c = &f->containers[i];
        if (has_failed(c) && is_looked_at(m, c))
            return c;
    }
    return NULL;
}

/* Windows has codes that are negative or not, as one reads their 32 bits. */
static bool exit_code_holds(const struct matcher *m, int64_t code)
{
    if (code == 0)
        return false;
    for (size_t i = 0; i < m->exit_code_count; i++)
        if ((uint32_t)m->exit_codes[i] == (uint32_t)code)
            return m->exit_operator == MATCHER_IN;
    return m->exit_operator == MATCHER_NOT_IN;
}

static bool has_condition(const struct matcher *m, enum condition c)
{
    return c != CONDITION_NONE && (m->conditions & MATCHER_CONDITION(c));
}

static bool condition_holds(const struct matcher *m, const struct failure *f,
                            const struct container_result *failed)
{
    if (failed && has_condition(m, failed->condition))
        return true;
    if (m->container.len)
        return false;
    return (f->container_count == 0 || f->condition != CONDITION_OOM_KILLED) &&
           has_condition(m, f->condition);
}

static bool is_among(const struct str *list, size_t n, struct str text)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(list[i], text))
            return true;
    return false;
}

static bool culprit_holds(const struct matcher *m, enum culprit c)
{
    return !m->culprits || (c && m->culprits & MATCHER_CULPRIT(c));
}

static bool category_holds(const struct matcher *m, const struct failure *f)
{
    for (size_t i = 0; i < m->category_count; i++)
        if (str_eq(m->categories[i], f->category) ||
            builtin_category_is_meant(m->categories[i], f->category, f->subcategory))
            return true;
    return false;
}

/* What is stated of names must be among those listed. */
static bool names_hold(const struct matcher *m, const struct failure *f)
{
    return culprit_holds(m, f->culprit) && (!m->category_count || category_holds(m, f)) &&
           (!m->subcategory_count ||
            is_among(m->subcategories, m->subcategory_count, f->subcategory)) &&
           (!m->error_type_count || is_among(m->error_types, m->error_type_count, f->error_type));
}

static bool states_more_than_message(const struct matcher *m)
{
    return m->exit_operator != MATCHER_NO_CODES || m->conditions || m->culprits ||
           m->category_count || m->subcategory_count || m->error_type_count || m->error ||
           m->pod_error || m->pod_event;
}

/* A process that a signal ended has no code of its own; shells and clusters say 128 and its number
 * for it, and so do those who write rules. */
static int32_t exit_code_of(int32_t exit_code, int32_t signal)
{
    bool by_signal = exit_code == 0 && signal > 0 && signal < 128;
    return by_signal ? 128 + signal : exit_code;
}

/* What takes no search. */
static bool facts_hold(const struct matcher *m, const struct failure *f)
{
    const struct container_result *failed = first_failed(m, f);
    bool own = f->container_count == 0 && m->container.len == 0;
    bool only_message = m->message && !states_more_than_message(m);
    if (m->container.len && !failed && !only_message)
        return false;
    int32_t code = failed ? exit_code_of(failed->exit_code, failed->signal)
                   : own  ? exit_code_of(f->exit_code, f->signal)
                          : 0;
    if (m->exit_operator != MATCHER_NO_CODES && !exit_code_holds(m, code))
        return false;
    if (m->conditions && !condition_holds(m, f, failed))
        return false;
    return names_hold(m, f);
}

static bool is_found(const struct pattern *p, struct str text, struct matcher_subject *s)
{
    if (text.len == 0 || s->gave_up >= MATCHER_GIVE_UPS_MAX)
        return false;
    uint64_t left = MATCHER_STEPS_MAX - s->steps;
    enum pattern_match m = pattern_search(p, text, &left);
    s->steps = MATCHER_STEPS_MAX - left;
    s->gave_up += m == PATTERN_GAVE_UP;
    return m == PATTERN_YES;
}

static bool message_holds(const struct matcher *m, struct matcher_subject *s)
{
    const struct failure *f = s->failure;
    if (f->container_count == 0)
        return m->container.len == 0 && is_found(m->message, f->termination_message, s);
    for (size_t i = 0; i < f->container_count; i++)
        if (is_looked_at(m, &f->containers[i]) && is_found(m->message, f->containers[i].message, s))
            return true;
    return false;
}

static bool event_holds(const struct matcher *m, struct matcher_subject *s)
{
    for (size_t i = 0; i < s->failure->pod_event_count; i++)
        if (is_found(m->pod_event, s->failure->pod_events[i], s))
            return true;
    return false;
}

/* "FailedMount: it did not appear": the part before the colon, and the message behind it. */
static struct str split_event(struct str event, struct str *message)
{
    for (size_t i = 0; i + 1 < event.len; i++) {
        if (event.at[i] != ':' || event.at[i + 1] != ' ')
            continue;
        *message = (struct str){event.at + i + 2, event.len - i - 2};
        return (struct str){event.at, i};
    }
    *message = event;
    return (struct str){0};
}

/* A report has the reasons of events and not their types. These are the reasons of normal ones. */
static enum matcher_event type_of_event(struct str reason)
{
    static const struct str normal[] = {
        STR("Scheduled"), STR("Pulling"),          STR("Pulled"),
        STR("Created"),   STR("Started"),          STR("Killing"),
        STR("Preempted"), STR("TriggeredScaleUp"), STR("TaintManagerEviction"),
        STR("Nominated"), STR("NotTriggerScaleUp")};
    return is_among(normal, COUNT(normal), reason) ? MATCHER_NORMAL : MATCHER_WARNING;
}

static bool asks_of_events(const struct matcher *m)
{
    return m->event_message || m->event_reason.len || m->event_type != MATCHER_ANY_EVENT;
}

static bool one_event_holds(const struct matcher *m, struct matcher_subject *s)
{
    for (size_t i = 0; i < s->failure->pod_event_count; i++) {
        struct str message, reason = split_event(s->failure->pod_events[i], &message);
        if ((!m->event_reason.len || str_eq(m->event_reason, reason)) &&
            (m->event_type == MATCHER_ANY_EVENT || m->event_type == type_of_event(reason)) &&
            (!m->event_message || is_found(m->event_message, message, s)))
            return true;
    }
    return false;
}

/* --- any failed container --- */

static bool container_holds(const struct matcher *m, struct matcher_subject *s,
                            const struct container_result *c)
{
    if (!has_failed(c) || (m->container.len && !str_eq(c->name, m->container)))
        return false;
    return (m->exit_operator == MATCHER_NO_CODES ||
            exit_code_holds(m, exit_code_of(c->exit_code, c->signal))) &&
           (!m->conditions || condition_holds(m, s->failure, c)) &&
           (!m->message || is_found(m->message, c->message, s));
}

static bool any_container_holds(const struct matcher *m, struct matcher_subject *s)
{
    for (size_t i = 0; i < s->failure->container_count; i++)
        if (container_holds(m, s, &s->failure->containers[i]))
            return true;
    if (m->container.len || m->message || m->exit_operator != MATCHER_NO_CODES)
        return false;
    return !m->conditions || condition_holds(m, s->failure, NULL);
}

static bool containers_hold(const struct matcher *m, struct matcher_subject *s)
{
    if (s->any_failed && s->failure->container_count)
        return any_container_holds(m, s) && names_hold(m, s->failure);
    return facts_hold(m, s->failure) && (!m->message || message_holds(m, s));
}

bool matcher_holds(const struct matcher *m, struct matcher_subject *s)
{
    return containers_hold(m, s) && (!m->error || is_found(m->error, s->failure->message, s)) &&
           (!m->pod_error || is_found(m->pod_error, s->failure->pod_error, s)) &&
           (!m->pod_event || event_holds(m, s)) && (!asks_of_events(m) || one_event_holds(m, s));
}

bool matcher_is_for_expired(const struct matcher *m)
{
    for (size_t i = 0; i < m->category_count; i++)
        if (builtin_category_is_of_expired(m->categories[i]))
            return true;
    return (m->conditions & MATCHER_CONDITION(CONDITION_LEASE_EXPIRED)) || m->culprits;
}

/* --- identity --- */

uint64_t matcher_mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

uint64_t matcher_hash(struct str text)
{
    uint64_t h = 0xcbf29ce484222325;
    for (size_t i = 0; i < text.len; i++)
        h = (h ^ (unsigned char)text.at[i]) * 0x100000001b3;
    return matcher_mix(h ^ text.len);
}

/* Folds one part into a key; the same value counts differently in another field. */
static uint64_t fold(uint64_t key, unsigned field, uint64_t value)
{
    return matcher_mix(key * 31 + matcher_mix(value + field));
}

static uint64_t fold_pattern(uint64_t key, unsigned field, const struct pattern *p)
{
    return p ? fold(key, field, matcher_hash(pattern_text(p))) : key;
}

static uint64_t fold_names(uint64_t key, unsigned field, const struct str *list, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += matcher_hash(list[i]);
    return n ? fold(key, field, sum) : key;
}

/* The numbers of the fields are part of what is stored: add new ones, never change these. */
uint64_t matcher_key(const struct matcher *m)
{
    uint64_t codes = 0, key = 0;
    for (size_t i = 0; i < m->exit_code_count; i++)
        codes += matcher_mix((uint32_t)m->exit_codes[i]);
    if (m->exit_operator != MATCHER_NO_CODES)
        key = fold(key, m->exit_operator == MATCHER_IN ? 1 : 2, codes);
    if (m->conditions)
        key = fold(key, 3, m->conditions);
    key = fold_pattern(key, 4, m->message);
    key = fold_names(key, 5, m->categories, m->category_count);
    if (m->container.len)
        key = fold(key, 6, matcher_hash(m->container));
    if (m->include_init)
        key = fold(key, 7, 1);
    key = fold_pattern(key, 8, m->pod_error);
    key = fold_pattern(key, 9, m->pod_event);
    key = fold_names(key, 10, m->subcategories, m->subcategory_count);
    key = fold_names(key, 11, m->error_types, m->error_type_count);
    key = fold_pattern(key, 12, m->error);
    key = fold_pattern(key, 13, m->event_message);
    if (m->event_reason.len)
        key = fold(key, 14, matcher_hash(m->event_reason));
    if (m->event_type != MATCHER_ANY_EVENT)
        key = fold(key, 15, m->event_type);
    return m->culprits ? fold(key, 16, m->culprits) : key;
}

/* --- what matchers say without a failure --- */

/* Of what is In or NotIn a list: whether all that `narrow` admits `wide` admits too. */
static bool codes_cover(const struct matcher *wide, const struct matcher *narrow)
{
    if (wide->exit_operator == MATCHER_NO_CODES)
        return true;
    if (narrow->exit_operator == MATCHER_NO_CODES ||
        (narrow->exit_operator == MATCHER_NOT_IN && wide->exit_operator == MATCHER_IN))
        return false;
    if (narrow->exit_operator == MATCHER_IN) {
        for (size_t i = 0; i < narrow->exit_code_count; i++)
            if (!exit_code_holds(wide, narrow->exit_codes[i]))
                return false;
        return true;
    }
    for (size_t i = 0; i < wide->exit_code_count; i++)
        if (exit_code_holds(narrow, wide->exit_codes[i]))
            return false;
    return true;
}

static bool names_cover(const struct str *wide, size_t wide_count, const struct str *narrow,
                        size_t narrow_count)
{
    if (wide_count && !narrow_count)
        return false;
    for (size_t i = 0; wide_count && i < narrow_count; i++)
        if (!is_among(wide, wide_count, narrow[i]))
            return false;
    return true;
}

static bool pattern_covers(const struct pattern *wide, const struct pattern *narrow)
{
    return !wide || (narrow && str_eq(pattern_text(wide), pattern_text(narrow)));
}

static bool looks_at_containers(const struct matcher *m)
{
    return m->exit_operator != MATCHER_NO_CODES || m->conditions || m->message || m->container.len;
}

/* The same containers are looked at, or it makes no difference to `wide` which. */
static bool containers_cover(const struct matcher *wide, const struct matcher *narrow)
{
    return !looks_at_containers(wide) || (str_eq(wide->container, narrow->container) &&
                                          wide->include_init == narrow->include_init);
}

static bool events_cover(const struct matcher *wide, const struct matcher *narrow)
{
    return pattern_covers(wide->event_message, narrow->event_message) &&
           (!wide->event_reason.len || str_eq(wide->event_reason, narrow->event_reason)) &&
           (wide->event_type == MATCHER_ANY_EVENT || wide->event_type == narrow->event_type);
}

static bool bits_cover(unsigned wide, unsigned narrow)
{
    return !wide || (narrow && !(narrow & ~wide));
}

/* A lease that ran out has this condition and no other. */
static bool may_be_expired(const struct matcher *m)
{
    return matcher_is_for_expired(m) &&
           (!m->conditions || has_condition(m, CONDITION_LEASE_EXPIRED));
}

bool matcher_covers(const struct matcher *wide, const struct matcher *narrow)
{
    bool expired = !may_be_expired(narrow) || matcher_is_for_expired(wide);
    return expired && bits_cover(wide->conditions, narrow->conditions) &&
           bits_cover(wide->culprits, narrow->culprits) && containers_cover(wide, narrow) &&
           codes_cover(wide, narrow) &&
           names_cover(wide->categories, wide->category_count, narrow->categories,
                       narrow->category_count) &&
           names_cover(wide->subcategories, wide->subcategory_count, narrow->subcategories,
                       narrow->subcategory_count) &&
           names_cover(wide->error_types, wide->error_type_count, narrow->error_types,
                       narrow->error_type_count) &&
           pattern_covers(wide->message, narrow->message) &&
           pattern_covers(wide->error, narrow->error) &&
           pattern_covers(wide->pod_error, narrow->pod_error) &&
           pattern_covers(wide->pod_event, narrow->pod_event) && events_cover(wide, narrow);
}

const char *matcher_never(const struct matcher *m)
{
    if (m->container.len && m->conditions &&
        !(m->conditions & MATCHER_CONDITION(CONDITION_OOM_KILLED)))
        return "of a container only OOMKilled is reported, and the rule names a container";
    return NULL;
}

/* --- words --- */

static void begin_part(struct buf *b, size_t from)
{
    if (b->len > from)
        buf_lit(b, "; ");
}

static void describe_codes(const struct matcher *m, struct buf *b)
{
    buf_print(b, "exit code %s", m->exit_operator == MATCHER_IN ? "in" : "not in");
    for (size_t i = 0; i < m->exit_code_count && i < WORDS_LISTED; i++)
        buf_print(b, "%s %lld", i ? "," : "", (long long)m->exit_codes[i]);
    if (m->exit_code_count > WORDS_LISTED)
        buf_lit(b, ", ...");
}

static void describe_conditions(const struct matcher *m, struct buf *b)
{
    const char *between = "";
    for (int c = CONDITION_NONE + 1; c < CONDITION_COUNT; c++) {
        if (!has_condition(m, (enum condition)c))
            continue;
        buf_print(b, "%s%s", between, job_condition_name((enum condition)c));
        between = ", ";
    }
}

static void describe_culprits(const struct matcher *m, struct buf *b)
{
    const char *between = "culprit ";
    for (int c = CULPRIT_NONE + 1; c < CULPRIT_COUNT; c++) {
        if (!(m->culprits & MATCHER_CULPRIT(c)))
            continue;
        buf_print(b, "%s%s", between, culprit_name((enum culprit)c));
        between = ", ";
    }
}

static void describe_names(const char *what, const struct str *list, size_t n, struct buf *b,
                           size_t from)
{
    if (!n)
        return;
    begin_part(b, from);
    buf_str(b, str_from(what));
    for (size_t i = 0; i < n && i < WORDS_LISTED; i++)
        buf_print(b, "%s %.*s", i ? "," : "", STR_ARG(list[i]));
    if (n > WORDS_LISTED)
        buf_lit(b, ", ...");
}

static void describe_pattern(const char *what, const struct pattern *p, struct buf *b)
{
    struct str text = pattern_text(p);
    size_t n = text.len;
    if (n > WORDS_PATTERN) {
        n = WORDS_PATTERN;
        /* Not in the middle of a character. */
        while (n > 0 && ((unsigned char)text.at[n] & 0xc0) == 0x80)
            n--;
    }
    buf_print(b, "%s ~ \"%.*s%s\"", what, (int)n, text.at, n < text.len ? "..." : "");
}

void matcher_describe(const struct matcher *m, struct buf *b)
{
    size_t from = b->len;
    if (m->conditions)
        describe_conditions(m, b);
    if (m->exit_operator != MATCHER_NO_CODES) {
        begin_part(b, from);
        describe_codes(m, b);
    }
    if (m->culprits) {
        begin_part(b, from);
        describe_culprits(m, b);
    }
    describe_names("category", m->categories, m->category_count, b, from);
    describe_names("subcategory", m->subcategories, m->subcategory_count, b, from);
    describe_names("error", m->error_types, m->error_type_count, b, from);
    static const char *const names[] = {"message", "error message", "pod error", "pod event"};
    const struct pattern *patterns[] = {m->message, m->error, m->pod_error, m->pod_event};
    for (size_t i = 0; i < COUNT(names); i++) {
        if (!patterns[i])
            continue;
        begin_part(b, from);
        describe_pattern(names[i], patterns[i], b);
    }
    if (m->container.len) {
        begin_part(b, from);
        buf_print(b, "container %.*s", STR_ARG(m->container));
    }
    if (b->len == from)
        buf_lit(b, "any failure");
}
