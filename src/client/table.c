/* SPDX-License-Identifier: Apache-2.0 */
#include "client/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "base/alloc.h"
#include "base/must.h"
#include "base/utf8.h"

#define GAP 2

/* One code point of well-formed UTF-8; moves *at past it. */
static wchar_t next_point(const char **at)
{
    const unsigned char *p = (const unsigned char *)*at;
    unsigned n = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    unsigned c = n == 1 ? p[0] : p[0] & (0x7fu >> n);
    for (unsigned i = 1; i < n; i++)
        c = c << 6 | (p[i] & 0x3f);
    *at += n;
    return (wchar_t)c;
}

static size_t point_width(wchar_t c)
{
    int w = wcwidth(c);
    return w < 0 ? 1 : (size_t)w;
}

size_t table_width(struct str text)
{
    size_t width = 0;
    for (const char *at = text.at, *end = text.at + text.len; at < end;)
        width += point_width(next_point(&at));
    return width;
}

static bool is_control(struct str s)
{
    unsigned char c = (unsigned char)s.at[0];
    /* C0, DEL, and C1 (U+0080 to U+009F), which some terminals also interpret. */
    return c < 0x20 || c == 0x7f || (c == 0xc2 && s.len > 1 && (unsigned char)s.at[1] < 0xa0);
}

/* Adds well-formed text without its control characters. */
static void add_printable(struct buf *b, struct str s)
{
    for (const char *at = s.at, *end = s.at + s.len; at < end;) {
        const char *start = at;
        wchar_t c = next_point(&at);
        if (c == '\n' || c == '\t' || c == '\r')
            buf_byte(b, ' ');
        else if (is_control((struct str){start, (size_t)(end - start)}))
            buf_lit(b, "\xef\xbf\xbd");
        else
            buf_add(b, start, (size_t)(at - start));
    }
}

void table_harmless(struct buf *b, struct str text)
{
    while (text.len) {
        size_t good = utf8_check(text);
        add_printable(b, (struct str){text.at, good});
        if (good < text.len)
            buf_lit(b, "\xef\xbf\xbd");
        size_t passed = good < text.len ? good + 1 : good;
        text = (struct str){text.at + passed, text.len - passed};
    }
}

static void finish_cell(struct table *t, enum table_style style, size_t start)
{
    ALLOC_GROW(t->cell, t->cells, t->cap, 64);
    t->cell[t->cells++] = (struct table_cell){start, t->text.len - start, style};
}

void table_init(struct table *t, const char *const *headers)
{
    *t = (struct table){0};
    for (; headers[t->columns]; t->columns++) {
        const char *h = headers[t->columns];
        must(t->columns < TABLE_COLUMNS_MAX);
        t->right[t->columns] = *h == '>';
        table_add(t, TABLE_FAINT, str_from(h + (*h == '>')));
    }
}

void table_fini(struct table *t)
{
    buf_fini(&t->text);
    free(t->cell);
    *t = (struct table){0};
}

void table_add(struct table *t, enum table_style style, struct str text)
{
    size_t start = t->text.len;
    table_harmless(&t->text, text);
    finish_cell(t, style, start);
}

void table_print(struct table *t, enum table_style style, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = NULL;
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    must(n >= 0);
    table_add(t, style, (struct str){text, (size_t)n});
    free(text);
}

static struct str cell_text(const struct table *t, size_t i)
{
    return (struct str){t->text.at + t->cell[i].start, t->cell[i].len};
}

/* The longest prefix that fits into the width, leaving a cell for the "…". */
static size_t fitting(struct str s, size_t width)
{
    size_t used = 0;
    const char *at = s.at;
    while (at < s.at + s.len) {
        const char *next = at;
        size_t w = point_width(next_point(&next));
        if (used + w + 1 > width)
            break;
        used += w;
        at = next;
    }
    return (size_t)(at - s.at);
}

/* "a-very-l…ng-name": both ends tell names apart. */
static void write_middle_cut(struct buf *b, struct str s, size_t width)
{
    size_t head = fitting(s, (width + 2) / 2), used = table_width((struct str){s.at, head}) + 1;
    size_t rest = table_width(s) - used + 1;
    const char *at = s.at + head;
    while (rest > width - used)
        rest -= point_width(next_point(&at));
    buf_add(b, s.at, head);
    buf_lit(b, "…");
    buf_add(b, at, (size_t)(s.at + s.len - at));
    buf_print(b, "%*s", (int)(width - used - rest), "");
}

/* room: of the last column, or 0. */
static void write_cell(const struct table *t, struct buf *b, size_t i, size_t width, bool colour,
                       size_t room)
{
    size_t column = i % t->columns;
    bool last = column + 1 == t->columns;
    struct str s = cell_text(t, i);
    size_t w = table_width(s);
    enum table_style style = t->cell[i].style;
    if (t->right[column])
        buf_print(b, "%*s", (int)(width - w), "");
    buf_str(b, str_from(table_on(style, colour)));
    if (w > width) {
        write_middle_cut(b, s, width);
        w = width;
    } else if (last && room && w > room) {
        buf_add(b, s.at, fitting(s, room));
        buf_lit(b, "…");
    } else {
        buf_str(b, s);
    }
    buf_str(b, str_from(table_off(style, colour)));
    if (!last)
        buf_print(b, "%*s", (int)(GAP + (t->right[column] ? 0 : width - w)), "");
}

/* What a last column that is cut should have at least, if it needs so much. */
#define LAST_LEAST 24

/* Takes cells from the widest names, until all fit or no name can be shorter. */
static void shrink(const struct table *t, size_t widths[], size_t width)
{
    size_t last = t->columns - 1, total = GAP * last;
    for (size_t c = 0; c < t->columns; c++)
        total += c == last && !t->least[c] && widths[c] > LAST_LEAST ? LAST_LEAST : widths[c];
    for (; total > width; total--) {
        size_t widest = t->columns;
        for (size_t c = 0; c < t->columns; c++)
            if (t->least[c] && widths[c] > t->least[c] &&
                (widest == t->columns || widths[c] > widths[widest]))
                widest = c;
        if (widest == t->columns)
            return;
        widths[widest]--;
    }
}

void table_write(const struct table *t, struct buf *b, bool colour, size_t width)
{
    must(t->columns && t->cells % t->columns == 0);
    size_t widths[TABLE_COLUMNS_MAX] = {0}, before_last = 0;
    for (size_t i = 0; i < t->cells; i++) {
        size_t w = table_width(cell_text(t, i));
        if (w > widths[i % t->columns])
            widths[i % t->columns] = w;
    }
    if (width)
        shrink(t, widths, width);
    for (size_t c = 0; c + 1 < t->columns; c++)
        before_last += widths[c] + GAP;
    /* In less than ten cells a truncated text is useless; let the terminal wrap the line. */
    size_t room = width > before_last + 10 ? width - before_last : 0;
    for (size_t i = 0; i < t->cells; i++) {
        write_cell(t, b, i, widths[i % t->columns], colour, room);
        if ((i + 1) % t->columns == 0) {
            while (b->len && b->at[b->len - 1] == ' ')
                b->len--;
            buf_byte(b, '\n');
        }
    }
}

bool table_colour(FILE *f)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    if ((no && *no) || (term && strcmp(term, "dumb") == 0))
        return false;
    return isatty(fileno(f)) == 1;
}

size_t table_terminal_width(FILE *f)
{
    struct winsize size;
    if (!isatty(fileno(f)))
        return 0;
    return ioctl(fileno(f), TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

const char *table_on(enum table_style style, bool colour)
{
    static const char *const codes[] = {
        [TABLE_PLAIN] = "",        [TABLE_GOOD] = "\x1b[32m", [TABLE_BUSY] = "\x1b[36m",
        [TABLE_WAIT] = "\x1b[33m", [TABLE_BAD] = "\x1b[31m",  [TABLE_FAINT] = "\x1b[2m",
    };
    return colour ? codes[style] : "";
}

const char *table_off(enum table_style style, bool colour)
{
    return colour && style != TABLE_PLAIN ? "\x1b[0m" : "";
}
