/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/report.h"

#include <stdarg.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/json.h"
#include "base/must.h"
#include "base/utf8.h"
#include "client/when.h"

#define LAST_LINE_MAX 300
#define LABEL_MAX     255 /* bytes that the server accepts */

void report_ending(struct buf *b, int status)
{
    if (WIFSIGNALED(status))
        buf_print(b, "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        buf_print(b, "exit status %d", WEXITSTATUS(status));
}

/* Adds text as JSON, with every byte replaced that is not valid UTF-8. */
static void add_valid(struct buf *b, struct str text)
{
    while (text.len) {
        size_t good = utf8_check(text);
        buf_add(b, text.at, good);
        if (good == text.len)
            return;
        buf_lit(b, "\xef\xbf\xbd");
        text = (struct str){text.at + good + 1, text.len - good - 1};
    }
}

/* The last line that is not blank. */
static struct str last_line(struct str text)
{
    while (text.len && (unsigned char)text.at[text.len - 1] <= ' ')
        text.len--;
    const char *nl = text.len ? memrchr(text.at, '\n', text.len) : NULL;
    if (!nl)
        return text;
    size_t before = (size_t)(nl + 1 - text.at);
    return (struct str){nl + 1, text.len - before};
}

struct str report_cut(struct str s, size_t max)
{
    if (s.len <= max)
        return s;
    while (max && ((unsigned char)s.at[max] & 0xc0) == 0x80)
        max--;
    return (struct str){s.at, max};
}

/* The end of standard error, which may begin in the middle of a character. */
static struct str tail_of(const struct child *c)
{
    struct str s = buf_view(&c->tail);
    while (c->cut && s.len && ((unsigned char)*s.at & 0xc0) == 0x80)
        s = (struct str){s.at + 1, s.len - 1};
    return s;
}

void report_text(struct buf *body, const char *key, struct str text)
{
    struct buf valid = {0};
    add_valid(&valid, text);
    buf_print(body, ",\"%s\":", key);
    json_write_string(body, buf_view(&valid));
    buf_fini(&valid);
}

void report_failure(struct buf *body, const struct child *c, span timeout, bool kill)
{
    struct str tail = tail_of(c), line = report_cut(last_line(tail), LAST_LINE_MAX);
    struct buf message = {0};
    if (timeout.ms > 0) {
        buf_lit(&message, "timed out after ");
        duration_write(&message, timeout);
    } else {
        report_ending(&message, c->status);
    }
    if (line.len) {
        buf_lit(&message, ": ");
        buf_str(&message, line);
    }
    report_text(body, "message", buf_view(&message));
    buf_print(body, ",\"error_type\":\"%s\"",
              timeout.ms > 0           ? "Timeout"
              : WIFSIGNALED(c->status) ? "Signal"
                                       : "ExitStatus");
    if (tail.len)
        report_text(body, "backtrace", tail);
    if (WIFSIGNALED(c->status))
        buf_print(body, ",\"signal\":%d", WTERMSIG(c->status));
    else
        buf_print(body, ",\"exit_code\":%d", WEXITSTATUS(c->status));
    buf_print(body, ",\"run_ms\":%lld%s", (long long)when_ms_between(c->ended, c->started),
              kill ? ",\"kill\":true" : "");
    buf_fini(&message);
}

void report_category(struct buf *body, struct str text)
{
    static const struct str mark = {"category=", 9};
    struct str found = {0};
    while (text.len) {
        const char *nl = memchr(text.at, '\n', text.len);
        struct str line = {text.at, nl ? (size_t)(nl - text.at) : text.len};
        text = (struct str){line.at + line.len + (nl != NULL), text.len - line.len - (nl != NULL)};
        while (line.len && (unsigned char)line.at[line.len - 1] <= ' ')
            line.len--;
        if (line.len > mark.len && memcmp(line.at, mark.at, mark.len) == 0)
            found = (struct str){line.at + mark.len, line.len - mark.len};
    }
    if (!found.len || utf8_check(found) < found.len)
        return;
    const char *slash = memchr(found.at, '/', found.len);
    struct str name = {found.at, slash ? (size_t)(slash - found.at) : found.len};
    struct str sub = {found.at + name.len + 1, slash ? found.len - name.len - 1 : 0};
    report_text(body, "category", report_cut(name, LABEL_MAX));
    if (sub.len)
        report_text(body, "subcategory", report_cut(sub, LABEL_MAX));
}

void report_no_start(struct buf *body, const char *why)
{
    report_text(body, "message", str_from(why));
    buf_lit(body, ",\"error_type\":\"CannotStart\"");
}

void report_line(enum table_style style, const char *word, const char *fmt, ...)
{
    static int colour = -1;
    if (colour < 0)
        colour = table_colour(stderr);
    struct buf line = {0};
    va_list ap;
    char *text = NULL;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    must(n >= 0);
    when_clock(&line, when_now());
    buf_print(&line, " %s%-4s%s ", table_on(style, colour), word, table_off(style, colour));
    table_harmless(&line, (struct str){text, (size_t)n});
    buf_byte(&line, '\n');
    ssize_t ignored = write(STDERR_FILENO, line.at, line.len);
    (void)ignored; /* nobody to tell */
    free(text);
    buf_fini(&line);
}
