/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/shape.h"

#include "base/json.h"

void shape_write_id(struct buf *b, struct id id)
{
    char text[ID_TEXT_LEN + 2];
    text[0] = '"';
    id_format(id, text + 1);
    text[ID_TEXT_LEN + 1] = '"';
    buf_add(b, text, sizeof text);
}

void shape_write_word(struct buf *b, const char *word)
{
    buf_byte(b, '"');
    buf_str(b, str_from(word));
    buf_byte(b, '"');
}

static const char *word_of(const struct shape_member *m, const void *at)
{
    return m->words->word(m->kind == SHAPE_WORD ? *(const int *)at : (int)*(const uint64_t *)at);
}

static inline bool is_set_by_kind(const struct shape_member *m, const void *at)
{
    switch ((enum shape_kind)m->set_kind) {
    case SHAPE_BOOL:
        return *(const bool *)at;
    case SHAPE_U16:
        return *(const uint16_t *)at != 0;
    case SHAPE_U32:
    case SHAPE_I32:
        return *(const uint32_t *)at != 0;
    case SHAPE_U64:
    case SHAPE_I64:
        return *(const uint64_t *)at != 0;
    case SHAPE_DOUBLE:
        return *(const double *)at != 0;
    case SHAPE_INSTANT:
        return instant_is_set(*(const instant *)at);
    case SHAPE_SPAN:
        return ((const span *)at)->ms >= 0;
    case SHAPE_TEXT:
    case SHAPE_JSON:
        return ((const struct str *)at)->len != 0;
    case SHAPE_WORD:
    case SHAPE_WORD64:
        return word_of(m, at) != NULL;
    case SHAPE_ID:
    case SHAPE_OBJECT:
    case SHAPE_PART:
    case SHAPE_OTHER:
        break;
    }
    return true;
}

static size_t length_of(const struct shape_member *m, const char *owner)
{
    return *(const size_t *)(owner + m->count_offset);
}

static inline bool is_set(const struct shape_member *m, const char *owner, const void *at)
{
    if (m->is_set)
        return m->is_set(owner);
    return m->is_list ? length_of(m, owner) > 0 : is_set_by_kind(m, at);
}

static void write_json(struct buf *b, struct str value, enum shape_lines lines)
{
    if (lines == SHAPE_ONE_LINE)
        json_write_one_line(b, value);
    else
        buf_str(b, value);
}

static void write_number(struct buf *b, const struct shape_member *m, const void *at)
{
    switch ((enum shape_kind)m->kind) {
    case SHAPE_U16:
        buf_int(b, *(const uint16_t *)at);
        return;
    case SHAPE_U32:
        buf_int(b, *(const uint32_t *)at);
        return;
    case SHAPE_I32:
        buf_int(b, *(const int32_t *)at);
        return;
    case SHAPE_DOUBLE:
        json_write_double(b, *(const double *)at);
        return;
    default: /* 64 bits, by itself or as a time */
        buf_int(b, *(const int64_t *)at);
        return;
    }
}

static void write_value(struct buf *b, const struct shape_member *m, const void *at,
                        enum shape_lines lines)
{
    switch ((enum shape_kind)m->kind) {
    case SHAPE_BOOL:
        buf_str(b, *(const bool *)at ? STR("true") : STR("false"));
        return;
    case SHAPE_ID:
        shape_write_id(b, *(const struct id *)at);
        return;
    case SHAPE_TEXT:
        json_write_string(b, *(const struct str *)at);
        return;
    case SHAPE_JSON:
        write_json(b, *(const struct str *)at, lines);
        return;
    case SHAPE_WORD:
    case SHAPE_WORD64:
        shape_write_word(b, word_of(m, at));
        return;
    case SHAPE_OBJECT:
        shape_write(b, m->shape, at, lines);
        return;
    case SHAPE_OTHER:
        m->write(b, at);
        return;
    default:
        write_number(b, m, at);
        return;
    }
}

static void write_list(struct buf *b, const struct shape_member *m, const char *owner,
                       const char *items, enum shape_lines lines)
{
    size_t count = length_of(m, owner);
    buf_byte(b, '[');
    for (size_t i = 0; i < count; i++) {
        if (i)
            buf_byte(b, ',');
        write_value(b, m, items + i * m->stride, lines);
    }
    buf_byte(b, ']');
}

static inline void write_key(struct buf *b, const struct shape_member *m)
{
    bool fits = b->cap - b->len >= sizeof m->key;
    memcpy(fits ? b->at + b->len : buf_room(b, sizeof m->key), m->key, sizeof m->key);
    b->len += m->key_len;
}

static void write_part(struct buf *b, const struct shape *s, const void *owner,
                       enum shape_lines lines)
{
    if (s->write)
        s->write(b, owner);
    else
        shape_write_members(b, s, owner, lines);
}

void shape_write_members(struct buf *b, const struct shape *s, const void *struct_,
                         enum shape_lines lines)
{
    const char *owner = struct_;
    for (const struct shape_member *m = s->members, *end = m + s->count; m < end; m++) {
        const char *at = owner + m->offset;
        bool set = m->when == ALWAYS && !m->is_set;
        if (m->by_pointer)
            at = *(const char *const *)at;
        if (!set)
            set = is_set(m, owner, at);
        if (!set && m->when != OR_NULL)
            continue;
        write_key(b, m);
        if (!set)
            buf_lit(b, "null");
        else if (m->kind == SHAPE_PART)
            write_part(b, m->shape, at, lines);
        else if (m->is_list)
            write_list(b, m, owner, at, lines);
        else
            write_value(b, m, at, lines);
    }
}

void shape_write(struct buf *b, const struct shape *s, const void *owner, enum shape_lines lines)
{
    size_t start = b->len;
    write_part(b, s, owner, lines);
    if (b->len == start)
        buf_byte(b, '{');
    else
        b->at[start] = '{'; /* in the place of the first comma */
    buf_byte(b, '}');
}
