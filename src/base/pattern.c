/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <ctype.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/must.h"

/* PCRE2 counts its match limit afresh at every start position, so it alone would allow 64 Ki
 * times as much. What bounds a whole search is this budget: compiled with PCRE2_AUTO_CALLOUT, the
 * matcher reports before each item of the pattern, which costs one, and each byte that it moved
 * since the last report (by a run like [ab]* it moves without a report) costs one too. To begin
 * costs something as well, for there may be thousands of searches without a report: what PCRE2
 * finds out of a text by itself, it finds many bytes at a time. */
#define STEPS_TO_BEGIN  16
#define BYTES_IN_A_STEP 32
/* Of Unicode; and how many a range may have that takes as long as a byte of a compiled pattern. */
#define CHARACTERS           0x110000
#define CHARACTERS_IN_A_BYTE 2
/* Backtracking is kept on the heap. These bound what one search may hold. */
#define HEAP_MAX_KIB 8192
#define DEPTH_MAX    50000
#define MATCH_MAX    1000000

struct pattern {
    pcre2_code *code;
    struct str text;
    char bytes[];
};

struct meter {
    uint64_t steps, most;
    size_t position;
};

static int count_step(pcre2_callout_block *at, void *ctx)
{
    struct meter *m = ctx;
    size_t now = at->current_position;
    m->steps += 1 + (now > m->position ? now - m->position : m->position - now);
    m->position = now;
    return m->steps > m->most ? PCRE2_ERROR_CALLOUT : 0;
}

static struct err bad_pattern(int code, size_t offset)
{
    char words[128];
    if (pcre2_get_error_message(code, (PCRE2_UCHAR *)words, sizeof words) < 0)
        words[sizeof words - 1] = '\0';
    return err_at(ERR_BAD_VALUE, (int64_t)offset, "%s (at offset %zu of the pattern)", words,
                  offset);
}

static struct err compile(struct str text, pcre2_code **out)
{
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    must(context);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    int code = 0;
    size_t offset = 0;
    *out = pcre2_compile((PCRE2_SPTR)(text.at ? text.at : ""), text.len,
                         PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_NEVER_BACKSLASH_C |
                             PCRE2_AUTO_CALLOUT,
                         &code, &offset, context);
    pcre2_compile_context_free(context);
    return *out ? err_none() : bad_pattern(code, offset);
}

/* "(?i)", "(?x-i:" or the like. Something quoted may look like it, too. */
static bool may_ignore_case(struct str text)
{
    for (size_t i = 0; i + 2 < text.len; i++) {
        if (text.at[i] != '(' || text.at[i + 1] != '?')
            continue;
        for (i += 2; i < text.len && strchr("^-imnsxJUa", text.at[i]) && text.at[i]; i++)
            if (text.at[i] == 'i')
                return true;
        i--;
    }
    return false;
}

/* The character at i, or more. Escapes for numbers and quotes may be any; others are no end of a
 * range, or stand for themselves. */
static uint32_t character_at(struct str text, size_t i)
{
    const char *at = text.at + i;
    size_t left = text.len - i;
    if (left > 1 && *at == '\\' && at[1] == 'x' && (left < 3 || at[2] != '{'))
        return UINT8_MAX;
    if (left > 3 && *at == '\\' && at[1] == 'x') {
        uint32_t c = 0;
        for (size_t k = 3; k < left && isxdigit((unsigned char)at[k]) && c < CHARACTERS; k++)
            c = c * 16 +
                (uint32_t)(isdigit((unsigned char)at[k]) ? at[k] - '0' : (at[k] | 32) - 'a' + 10);
        return c < CHARACTERS ? c : CHARACTERS;
    }
    if (*at == '\\')
        return left > 1 && strchr("oNQE", at[1]) ? CHARACTERS : INT8_MAX;
    unsigned char c = (unsigned char)*at;
    return c < 0x80 ? c : c < 0xe0 ? 0x7ff : c < 0xf0 ? (c - 0xdfu) << 12 : CHARACTERS;
}

/* Each '-' may be that of a range, with spaces behind it under (?xx). */
uint64_t pattern_range_effort(struct str text)
{
    uint64_t characters = 0;
    if (!may_ignore_case(text))
        return 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] != '-')
            continue;
        size_t end = i + 1;
        while (end < text.len && (text.at[end] == ' ' || text.at[end] == '\t'))
            end++;
        if (end < text.len)
            characters += character_at(text, end);
    }
    return characters / CHARACTERS_IN_A_BYTE;
}

/* Comparing with what a group matched takes steps that are not reported. */
static bool refers_back(const pcre2_code *code)
{
    uint32_t highest = 0;
    must(pcre2_pattern_info(code, PCRE2_INFO_BACKREFMAX, &highest) == 0);
    return highest > 0;
}

struct err pattern_new(struct str text, struct pattern **out)
{
    if (text.len > PATTERN_LENGTH_MAX)
        return err_at(ERR_BAD_VALUE, PATTERN_LENGTH_MAX,
                      "the pattern is %zu bytes long; at most %d are allowed", text.len,
                      PATTERN_LENGTH_MAX);
    pcre2_code *code;
    TRY(compile(text, &code));
    if (refers_back(code)) {
        pcre2_code_free(code);
        return err_at(ERR_BAD_VALUE, 0, "back references like \\1 are not supported");
    }
    struct pattern *p = alloc_get(sizeof *p + text.len);
    p->code = code;
    if (text.len)
        memcpy(p->bytes, text.at, text.len);
    p->text = (struct str){p->bytes, text.len};
    *out = p;
    return err_none();
}

void pattern_free(struct pattern *p)
{
    if (!p)
        return;
    pcre2_code_free(p->code);
    free(p);
}

size_t pattern_size(const struct pattern *p)
{
    size_t size = 0;
    must(pcre2_pattern_info(p->code, PCRE2_INFO_SIZE, &size) == 0);
    return size;
}

struct str pattern_text(const struct pattern *p)
{
    return p->text;
}

static void use_up(uint64_t *steps, uint64_t used)
{
    *steps -= used < *steps ? used : *steps;
}

enum pattern_match pattern_search(const struct pattern *p, struct str text, uint64_t *steps)
{
    size_t len = text.len < PATTERN_TEXT_MAX ? text.len : PATTERN_TEXT_MAX;
    struct meter meter = {.steps = STEPS_TO_BEGIN + len / BYTES_IN_A_STEP,
                          .most = *steps < PATTERN_STEPS_MAX ? *steps : PATTERN_STEPS_MAX};
    if (meter.steps > meter.most) {
        use_up(steps, meter.steps);
        return PATTERN_GAVE_UP;
    }
    pcre2_match_context *context = pcre2_match_context_create(NULL);
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    must(context && data);
    pcre2_set_heap_limit(context, HEAP_MAX_KIB);
    pcre2_set_depth_limit(context, DEPTH_MAX);
    pcre2_set_match_limit(context, MATCH_MAX);
    pcre2_set_callout(context, count_step, &meter);
    int rc = pcre2_match(p->code, (PCRE2_SPTR)(text.at ? text.at : ""), len, 0, 0, data, context);
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    use_up(steps, meter.steps);
    /* 0: a match with more groups than data has room for. Any other failure than "no match" is a
     * limit, or a pattern that recurses without end. */
    if (rc >= 0)
        return PATTERN_YES;
    return rc == PCRE2_ERROR_NOMATCH ? PATTERN_NO : PATTERN_GAVE_UP;
}
