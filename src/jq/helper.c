/* SPDX-License-Identifier: Apache-2.0 */
#include "jq/helper.h"

#include <errno.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/array.h"
#include "base/evaluator.h"
#include "jq/frame.h"
#include "jq/program.h"

/* --- limits --- */

static void limit(int resource, uint64_t value)
{
    struct rlimit r = {value, value};
    setrlimit((__rlimit_resource_t)resource, &r);
}

/* Memory that is already mapped (libraries; the shadow of a sanitizer) does not count. */
static uint64_t mapped_bytes(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f) {
        if (fscanf(f, "%lu", &pages) != 1)
            pages = 0;
        fclose(f);
    }
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void on_no_memory(void *ctx)
{
    (void)ctx;
    _exit(FRAME_EXIT_MEMORY);
}

/* What reading, computing and answering need; all else fails as if it were not allowed. What the
 * libraries ask for at their start they have had. A sanitizer needs more at the end, to look for
 * leaks. */
__attribute__((unused)) static bool allow_calls(void)
{
    static const int calls[] = {
        SCMP_SYS(read),
        SCMP_SYS(write),
        SCMP_SYS(exit),
        SCMP_SYS(exit_group),
        SCMP_SYS(brk),
        SCMP_SYS(mmap),
        SCMP_SYS(munmap),
        SCMP_SYS(mremap),
        SCMP_SYS(mprotect),
        SCMP_SYS(madvise),
        SCMP_SYS(futex),
        SCMP_SYS(rt_sigreturn),
        SCMP_SYS(rt_sigaction),
        SCMP_SYS(rt_sigprocmask),
        SCMP_SYS(restart_syscall),
        SCMP_SYS(clock_gettime),
        SCMP_SYS(clock_getres),
        SCMP_SYS(gettimeofday),
        SCMP_SYS(time),
        SCMP_SYS(getrandom),
        SCMP_SYS(getpid),
        SCMP_SYS(gettid),
        SCMP_SYS(tgkill),
        SCMP_SYS(getrusage),
        SCMP_SYS(sched_yield),
        SCMP_SYS(fstat),
        SCMP_SYS(newfstatat),
    };
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    if (!filter)
        return false;
    int failed = 0;
    for (size_t i = 0; i < COUNT(calls) && !failed; i++)
        failed = seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);
    failed = failed ? failed : seccomp_load(filter);
    seccomp_release(filter);
    return !failed;
}

static void confine(uint64_t memory)
{
    /* Otherwise it would outlive a server that was killed while an expression ran. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    close_range(3, ~0u, 0);
    limit(RLIMIT_AS, mapped_bytes() + memory);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_FSIZE, 0);
    limit(RLIMIT_NOFILE, 3);
    program_on_no_memory(on_no_memory);
#ifndef __SANITIZE_ADDRESS__
    /* A kernel that has no such filters is one the limits above have to do for. */
    if (!allow_calls())
        fputs("tenax jq-helper: this kernel cannot limit its system calls\n", stderr);
#endif
}

/* --- reading and writing --- */

static bool read_all(void *to, size_t n)
{
    for (size_t got = 0; got < n;) {
        ssize_t r = read(STDIN_FILENO, (char *)to + got, n - got);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return false;
        got += (size_t)r;
    }
    return true;
}

static void write_all(const char *at, size_t n)
{
    while (n) {
        ssize_t w = write(STDOUT_FILENO, at, n);
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0)
            _exit(1); /* the server is gone */
        at += w;
        n -= (size_t)w;
    }
}

static void say(enum frame_kind kind, struct str text)
{
    uint32_t len = (uint32_t)text.len + 1;
    char head[5];
    memcpy(head, &len, sizeof len);
    head[4] = (char)kind;
    write_all(head, sizeof head);
    write_all(text.at, text.len);
}

static void say_step(enum frame_kind kind)
{
    say(kind, (struct str){0});
}

/* --- running --- */

static struct err parse(struct str json, jv *v)
{
    *v = jv_parse_sized(json.at, (int)json.len);
    if (jv_is_valid(*v))
        return err_none();
    jv_free(*v);
    return err_make(ERR_UNPROCESSABLE, "the payload cannot be read by jq");
}

/* Takes the invalid value that jq_next returns after the last output. */
static struct err failure_of(jv end)
{
    if (!jv_invalid_has_msg(jv_copy(end))) {
        jv_free(end);
        return err_none();
    }
    jv msg = jv_invalid_get_msg(end);
    if (jv_get_kind(msg) != JV_KIND_STRING)
        msg = jv_dump_string(msg, 0);
    struct err err = err_make(ERR_UNPROCESSABLE, "%.150s", jv_string_value(msg));
    jv_free(msg);
    return err;
}

static bool is_true(jv v)
{
    bool truth = jv_get_kind(v) != JV_KIND_FALSE && jv_get_kind(v) != JV_KIND_NULL;
    jv_free(v);
    return truth;
}

/* Releases what the last run holds. */
static void rest(jq_state *jq)
{
    jq_start(jq, jv_null(), 0);
}

/* The only output for this input, which is consumed. */
static struct err run_once(jq_state *jq, jv input, jv *out)
{
    jq_start(jq, input, 0);
    *out = jq_next(jq);
    if (!jv_is_valid(*out)) {
        TRY(failure_of(*out));
        return err_make(ERR_UNPROCESSABLE, "it gives no output; exactly one is needed");
    }
    jv second = jq_next(jq);
    if (!jv_is_valid(second)) {
        struct err err = failure_of(second);
        if (err.code != ERR_OK)
            jv_free(*out);
        return err;
    }
    jv_free(second);
    jv_free(*out);
    return err_make(ERR_UNPROCESSABLE, "it gives several outputs; exactly one is needed");
}

static bool matches(jq_state *jq, struct str payload)
{
    jv input;
    bool truth = false;
    if (parse(payload, &input).code != ERR_OK)
        return false;
    jq_start(jq, input, 0);
    for (;;) {
        jv out = jq_next(jq);
        if (!jv_is_valid(out)) {
            jv_free(out);
            break;
        }
        truth = is_true(out);
        if (truth)
            break;
    }
    return truth;
}

static struct err filter(struct str expr, struct str *rest_of, uint32_t count)
{
    jq_state *jq;
    TRY(program_get(PROGRAM_FILTER, expr, &jq));
    say_step(FRAME_STEP);
    for (uint32_t i = 0; i < count; i++)
        say_step(matches(jq, frame_read_text(rest_of)) ? FRAME_TRUE : FRAME_FALSE);
    rest(jq);
    return err_none();
}

static struct err run_fold(struct str expr, jv existing, jv incoming, jv *out)
{
    jq_state *jq;
    TRY(program_get(PROGRAM_FOLD, expr, &jq));
    say_step(FRAME_STEP);
    struct err err = run_once(jq, JV_ARRAY(jv_copy(existing), jv_copy(incoming)), out);
    rest(jq);
    return err;
}

/* The only output of an expression about two payloads; `which` names the expression in errors. */
static struct err run_about(const char *which, struct str expr, jv existing, jv incoming, jv *out)
{
    struct err err = run_fold(expr, existing, incoming, out);
    if (err.code != ERR_OK)
        return err_make(err.code, "batch.%s: %.180s", which, err.msg);
    return err;
}

static struct err check(const struct str exprs[2], jv incoming)
{
    jv out;
    TRY(run_about("when", exprs[0], incoming, incoming, &out));
    jv_free(out);
    say_step(FRAME_STEP);
    TRY(run_about("fold", exprs[1], incoming, incoming, &out));
    jv_free(out);
    return err_none();
}

static struct err fold(const struct str exprs[2], jv existing, jv incoming)
{
    jv out;
    TRY(run_about("when", exprs[0], existing, incoming, &out));
    bool truth = is_true(out);
    say_step(truth ? FRAME_TRUE : FRAME_FALSE);
    if (!truth)
        return err_none();
    TRY(run_about("fold", exprs[1], existing, incoming, &out));
    jv text = jv_dump_string(out, 0);
    say(FRAME_JSON,
        (struct str){jv_string_value(text), (size_t)jv_string_length_bytes(jv_copy(text))});
    jv_free(text);
    return err_none();
}

static struct err fold_into(const struct str exprs[2], jv existing, struct str payload)
{
    jv incoming;
    TRY(parse(payload, &incoming));
    struct err err = fold(exprs, existing, incoming);
    jv_free(incoming);
    return err;
}

static struct err batch(enum eval_kind kind, const struct str exprs[2], struct str *rest_of)
{
    jv first;
    TRY(parse(frame_read_text(rest_of), &first));
    struct err err = kind == EVAL_CHECK ? check(exprs, first)
                                        : fold_into(exprs, first, frame_read_text(rest_of));
    jv_free(first);
    return err;
}

static void answer(struct str request)
{
    struct str kind = {request.at, 1};
    request.at++;
    request.len--;
    struct str exprs[2];
    exprs[0] = frame_read_text(&request);
    exprs[1] = frame_read_text(&request);
    uint32_t count = frame_read_number(&request);
    struct err err = *kind.at == EVAL_FILTER ? filter(exprs[0], &request, count)
                                             : batch((enum eval_kind) * kind.at, exprs, &request);
    if (err.code == ERR_OK)
        say_step(FRAME_END);
    else
        say(FRAME_ERROR, str_from(err.msg));
}

int helper_main(int argc, char **argv)
{
    if (argc != 2) {
        fputs("tenax jq-helper: only the server may start this\n", stderr);
        return 2;
    }
    confine(strtoull(argv[1], NULL, 10));
    say_step(FRAME_READY);
    uint32_t len;
    while (read_all(&len, sizeof len) && len > 0) {
        char *request = malloc(len);
        if (!request)
            _exit(FRAME_EXIT_MEMORY);
        if (!read_all(request, len))
            _exit(0);
        answer((struct str){request, len});
        free(request);
    }
    program_forget();
    return 0;
}
