/* SPDX-License-Identifier: Apache-2.0 */

/* To be included before a function that includes a list of rows (api_job.def says what they are):
 * it makes code of them that writes into b what the struct that o points to has, each member with a
 * comma before it. */

#ifndef API_API_ROWS_CODE_H
#define API_API_ROWS_CODE_H

static inline bool id_is_set(struct id id)
{
    return !id_is_none(id);
}

static inline bool text_is_set(struct str s)
{
    return s.len != 0;
}

static inline bool number_is_set(int64_t n)
{
    return n != 0;
}

static inline bool u64_is_set(uint64_t n)
{
    return n != 0;
}

static inline void write_bool(struct buf *b, bool on)
{
    buf_str(b, on ? STR("true") : STR("false"));
}

static inline void write_u64(struct buf *b, uint64_t n)
{
    buf_int(b, (int64_t)n);
}

static inline void write_instant(struct buf *b, instant t)
{
    buf_int(b, t.ms);
}

/* when is a constant at each row. */
static inline void write_word(struct buf *b, const char *key, size_t key_len, const char *word,
                              enum shape_when when)
{
    if (!word && when != OR_NULL)
        return;
    buf_add(b, key, key_len);
    if (word)
        shape_write_word(b, word);
    else
        buf_lit(b, "null");
}

#endif

#undef VALUE
#undef VALUE_IF
#undef WORD
#undef OBJECT_IF
#undef INNER_IF
#undef MADE_IF
#undef PART_IF
#undef ROW
#undef IS_SET
#undef WRITE
#undef WRITE_SHAPE

/* clang-format off */
#define IS_SET(value)                                                                              \
    _Generic((value),                                                                              \
        struct id: id_is_set,                                                                      \
        struct str: text_is_set,                                                                   \
        instant: instant_is_set,                                                                   \
        uint64_t: u64_is_set,                                                                      \
        default: number_is_set)(value)
#define WRITE(value)                                                                               \
    _Generic((value),                                                                              \
        struct id: shape_write_id,                                                                 \
        struct str: json_write_string,                                                             \
        instant: write_instant,                                                                    \
        bool: write_bool,                                                                          \
        uint64_t: write_u64,                                                                       \
        default: buf_int)(b, value)
/* clang-format on */
#define WRITE_SHAPE(shape, field) shape_write(b, shape, field, SHAPE_AS_IT_IS)

#define ROW(condition, name, write)                                                                \
    if (condition) {                                                                               \
        buf_lit(b, ",\"" name "\":");                                                              \
        write;                                                                                     \
    }
#define VALUE(field, name, when, ...)                                                              \
    ROW((when) == ALWAYS || IS_SET(o->field), name, WRITE(o->field))                               \
    else if ((when) == OR_NULL) buf_lit(b, ",\"" name "\":null");
#define VALUE_IF(is_set, field, name, ...) ROW(is_set(o), name, WRITE(o->field))
#define WORD(field, name, when, words, doc)                                                        \
    write_word(b, ",\"" name "\":", sizeof(",\"" name "\":") - 1, (words)->word((int)o->field),    \
               when);
#define OBJECT_IF(is_set, field, name, shape, doc)                                                 \
    ROW(is_set(o), name, WRITE_SHAPE(shape, &o->field))
#define INNER_IF(is_set, name, shape, doc)      ROW(is_set(o), name, WRITE_SHAPE(shape, o))
#define MADE_IF(is_set, name, type, write, doc) ROW(is_set(o), name, write(b, o))
#define PART_IF(is_set, shape)                                                                     \
    if (is_set(o))                                                                                 \
        shape_write_members(b, shape, o, SHAPE_AS_IT_IS);
