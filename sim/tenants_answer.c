/* SPDX-License-Identifier: Apache-2.0 */

/* What tenants are answered, in the form in which two runs are compared. */

#include "tenants.h"

#include "base/array.h"
#include "base/buf.h"
#include "base/must.h"

#define ID_LEN 25

static bool is_in_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_id(struct str word)
{
    bool digit = false;
    if (word.len != ID_LEN)
        return false;
    for (size_t i = 0; i < word.len; i++) {
        char c = word.at[i];
        if (!is_in_word(c) || c == '_' || (c >= 'A' && c <= 'Z'))
            return false;
        digit |= c >= '0' && c <= '9';
    }
    return digit;
}

static size_t number_of(struct tenant *t, struct str id)
{
    size_t number = (size_t)(uintptr_t)strmap_get(&t->met, id);
    if (number)
        return number;
    ARENA_GROW(&t->arena, t->jobs, t->job_count, t->job_cap, 64);
    t->jobs[t->job_count++] = arena_copy(&t->arena, id);
    strmap_put(&t->met, id, (void *)(uintptr_t)t->job_count);
    return t->job_count;
}

static void hold(struct tenant *t, struct str job, struct str token)
{
    for (size_t i = 0; i < t->run_count; i++)
        if (str_eq(t->runs[i].token, token))
            return;
    if (t->run_count == TENANT_RUNS)
        memmove(t->runs, t->runs + 1, --t->run_count * sizeof *t->runs);
    t->runs[t->run_count++] =
        (struct tenant_run){arena_copy(&t->arena, job), arena_copy(&t->arena, token)};
}

/* Members whose values are of the whole server: how many characters of the value to leave out. */
static size_t length_left_out(struct str rest, size_t *name)
{
    static const char *const names[] = {"\"token\":\"", "\"cursor\":\"",
                                        "\"number\":", "\"operation\":"};
    for (size_t i = 0; i < COUNT(names); i++) {
        size_t len = strlen(names[i]), n = 0;
        if (rest.len < len || memcmp(rest.at, names[i], len) != 0)
            continue;
        while (len + n < rest.len && (is_in_word(rest.at[len + n]) || rest.at[len + n] == '-'))
            n++;
        *name = len;
        return n;
    }
    return 0;
}

static void make_plain(struct tenant *t, struct str s, struct buf *out)
{
    struct str job = {0};
    size_t name;
    for (size_t i = 0; i < s.len;) {
        struct str rest = {s.at + i, s.len - i};
        size_t left_out = length_left_out(rest, &name);
        if (left_out) {
            if (rest.at[1] == 't' && job.len)
                hold(t, job, (struct str){rest.at + name, left_out});
            buf_str(out, (struct str){rest.at, name});
            buf_byte(out, '*');
            i += name + left_out;
            continue;
        }
        size_t word = 0;
        while (word < rest.len && is_in_word(rest.at[word]))
            word++;
        if (is_id((struct str){rest.at, word})) {
            job = (struct str){rest.at, word};
            buf_print(out, "#%zu", number_of(t, job));
        } else {
            buf_str(out, (struct str){rest.at, word ? word : 1});
        }
        i += word ? word : 1;
    }
}

void tenants_note_request(struct tenant *t, struct str text)
{
    struct buf plain = {0};
    make_plain(t, text, &plain);
    ARENA_GROW(&t->arena, t->answers, t->asked, t->answer_cap, 256);
    t->answers[t->asked++] = arena_copy(&t->arena, buf_view(&plain));
    buf_fini(&plain);
}

void tenants_keep_answer(struct tenant *t, size_t request, int status, struct str body)
{
    struct buf plain = {0};
    buf_print(&plain, "%.*s -> %d ", STR_ARG(t->answers[request]), status);
    make_plain(t, body, &plain);
    t->answers[request] = arena_copy(&t->arena, buf_view(&plain));
    buf_fini(&plain);
}

void tenants_keep_loss(struct tenant *t, size_t request)
{
    struct buf plain = {0};
    buf_print(&plain, "%.*s -> lost", STR_ARG(t->answers[request]));
    t->answers[request] = arena_copy(&t->arena, buf_view(&plain));
    buf_fini(&plain);
}
