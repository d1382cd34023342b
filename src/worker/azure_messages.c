/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/azure_messages.h"

#include <glib.h>

#include "base/array.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/decimal.h"
#include "base/json.h"

#define RUNS_MAX 1000

enum level { OUTSIDE, IN_LIST, IN_MESSAGE, IN_ELEMENT };

/* The elements of a message that matter. */
enum element { ID, RECEIPT, DEQUEUES, TEXT, ELEMENTS };
static const char *const names[ELEMENTS] = {"MessageId", "PopReceipt", "DequeueCount",
                                            "MessageText"};

struct reading {
    struct arena *arena;
    struct azure_message *messages;
    size_t count;
    enum level level;
    unsigned skip;        /* how many elements we are within that do not matter */
    enum element element; /* IN_ELEMENT: which */
    struct buf text;
    struct str texts[ELEMENTS];
    const char *fault;
};

bool azure_is_slugid(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.at[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '-' || c == '_'))
            return false;
    }
    return s.len == 22;
}

/* {"taskId": …, "runId": …}; what else there is does not matter. */
static bool read_run(struct str json, struct arena *a, struct azure_message *m)
{
    struct json_cursor c = json_open(json);
    bool run = false;
    m->task_id = (struct str){0};
    if (json_enter_object(&c).code != ERR_OK)
        return false;
    for (bool more;;) {
        struct json_string key, s;
        struct err e = json_next_member(&c, &more, &key);
        if (e.code == ERR_OK && !more)
            break;
        if (e.code == ERR_OK && str_eq(key.raw, STR("taskId"))) {
            e = json_read_string(&c, &s);
            if (e.code == ERR_OK)
                e = json_text(s, a, &m->task_id);
        } else if (e.code == ERR_OK && str_eq(key.raw, STR("runId"))) {
            run = true;
            e = json_read_int(&c, 0, RUNS_MAX, &m->run);
        } else if (e.code == ERR_OK) {
            e = json_skip(&c, NULL);
        }
        if (e.code != ERR_OK)
            return false;
    }
    return json_close(&c).code == ERR_OK && run && azure_is_slugid(m->task_id);
}

static struct str trim(struct str s)
{
    while (s.len && (unsigned char)*s.at <= ' ')
        s = (struct str){s.at + 1, s.len - 1};
    while (s.len && (unsigned char)s.at[s.len - 1] <= ' ')
        s.len--;
    return s;
}

static void end_message(struct reading *r)
{
    struct azure_message m = {.id = r->texts[ID], .receipt = r->texts[RECEIPT]};
    struct str json;
    if (!m.id.len || !m.receipt.len) {
        r->fault = "a message has no MessageId or no PopReceipt";
        return;
    }
    if (r->texts[DEQUEUES].len)
        decimal_digits(r->texts[DEQUEUES], 18, &m.dequeues);
    m.bad = !base64_read(r->texts[TEXT], r->arena, &json) || !read_run(json, r->arena, &m);
    if (r->count < AZURE_MESSAGES_MAX)
        r->messages[r->count++] = m;
}

/* --- what GMarkup calls: after a fault nothing matters any more --- */

static void on_start(GMarkupParseContext *context, const char *name, const char **keys,
                     const char **values, void *ctx, GError **error)
{
    struct reading *r = ctx;
    (void)context;
    (void)keys;
    (void)values;
    (void)error;
    if (r->fault)
        return;
    if (r->skip) {
        r->skip++;
    } else if (r->level == OUTSIDE && strcmp(name, "QueueMessagesList") == 0) {
        r->level = IN_LIST;
    } else if (r->level == OUTSIDE) {
        r->fault = "it is no QueueMessagesList";
    } else if (r->level == IN_LIST && strcmp(name, "QueueMessage") == 0) {
        r->level = IN_MESSAGE;
        memset(r->texts, 0, sizeof r->texts);
    } else {
        size_t e = 0;
        while (e < ELEMENTS && (r->level != IN_MESSAGE || strcmp(name, names[e]) != 0))
            e++;
        if (e == ELEMENTS) {
            r->skip = 1;
        } else {
            r->element = (enum element)e;
            r->level = IN_ELEMENT;
            r->text.len = 0;
        }
    }
}

static void on_end(GMarkupParseContext *context, const char *name, void *ctx, GError **error)
{
    struct reading *r = ctx;
    (void)context;
    (void)name;
    (void)error;
    if (r->fault)
        return;
    if (r->skip) {
        r->skip--;
    } else if (r->level == IN_ELEMENT) {
        r->texts[r->element] = arena_copy(r->arena, trim(buf_view(&r->text)));
        r->level = IN_MESSAGE;
    } else if (r->level == IN_MESSAGE) {
        end_message(r);
        r->level = IN_LIST;
    }
}

static void on_text(GMarkupParseContext *context, const char *text, gsize len, void *ctx,
                    GError **error)
{
    struct reading *r = ctx;
    (void)context;
    (void)error;
    if (r->fault || r->skip || r->level != IN_ELEMENT)
        return;
    if (r->text.len + len > AZURE_TEXT_MAX)
        r->fault = "an element is too long";
    else
        buf_add(&r->text, text, len);
}

static struct err parse(struct str xml, struct reading *r)
{
    static const GMarkupParser parser = {
        .start_element = on_start, .end_element = on_end, .text = on_text};
    GMarkupParseContext *context =
        g_markup_parse_context_new(&parser, G_MARKUP_TREAT_CDATA_AS_TEXT, r, NULL);
    GError *error = NULL;
    struct err e = err_none();
    if (!g_markup_parse_context_parse(context, xml.at, (gssize)xml.len, &error) ||
        !g_markup_parse_context_end_parse(context, &error) || r->fault)
        e = err_make(ERR_BAD_VALUE, "the list of messages cannot be read: %.120s",
                     r->fault ? r->fault
                     : error  ? error->message
                              : "it is malformed");
    if (error)
        g_error_free(error);
    g_markup_parse_context_free(context);
    return e;
}

struct err azure_messages_read(struct str xml, struct arena *a,
                               struct azure_message messages[AZURE_MESSAGES_MAX], size_t *count)
{
    static const struct str mark = {"\xef\xbb\xbf", 3}; /* a byte order mark, as Azure sends it */
    struct reading r = {.arena = a, .messages = messages};
    if (xml.len >= mark.len && memcmp(xml.at, mark.at, mark.len) == 0)
        xml = (struct str){xml.at + mark.len, xml.len - mark.len};
    if (!xml.at)
        xml = STR("");
    struct err e = parse(xml, &r);
    buf_fini(&r.text);
    *count = r.count;
    return e;
}
