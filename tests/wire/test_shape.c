/* SPDX-License-Identifier: Apache-2.0 */

/* Objects written by tables of members. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/json.h"
#include "wire/shape.h"

enum colour { COLOUR_NONE, COLOUR_RED, COLOUR_BLUE };

struct inner {
    int32_t depth;
    struct str note;
};

struct thing {
    struct str name, raw;
    bool on;
    uint16_t small;
    uint32_t middle;
    uint64_t large;
    int64_t offset;
    double ratio;
    instant at;
    span lasts;
    struct id id;
    enum colour colour;
    struct inner inner, *items, *other;
    struct str *names;
    size_t item_count, name_count;
    uint16_t numbers[3];
    size_t number_count;
};

static const char *colour_word(int i)
{
    static const char *const words[] = {NULL, "red", "blue"};
    return words[i];
}

static const struct shape_words colours = {.count = 3, .word = colour_word};

static const struct shape_member inner_members[] = {
    {MEMBER(struct inner, depth, "depth", IF_SET, NULL)},
    {MEMBER(struct inner, note, "note", IF_SET, NULL)},
};
static const struct shape inner_shape = {SHAPE_MEMBERS(inner_members)};

static struct thing empty(void)
{
    return (struct thing){.at = INSTANT_NONE, .lasts = {-1}};
}

static struct thing full(void)
{
    static struct inner items[] = {{1, {0}}, {0, {"n", 1}}};
    static struct str names[] = {{"a", 1}, {"\"", 1}};
    return (struct thing){.name = STR("x"),
                          .raw = STR("[1,\n2]"),
                          .on = true,
                          .small = UINT16_MAX,
                          .middle = UINT32_MAX,
                          .large = 7,
                          .offset = -8,
                          .ratio = 0.5,
                          .at = {0},
                          .lasts = {0},
                          .colour = COLOUR_BLUE,
                          .inner = {-1, STR("deep")},
                          .items = items,
                          .item_count = 2,
                          .other = items,
                          .names = names,
                          .name_count = 2,
                          .numbers = {3, 2, 1},
                          .number_count = 2};
}

static void check_lines(const struct shape *s, const struct thing *t, enum shape_lines lines,
                        const char *expected)
{
    struct buf b = {0};
    buf_lit(&b, "before ");
    shape_write(&b, s, t, lines);
    buf_byte(&b, '\0');
    assert_string_equal(b.at + 7, expected);
    buf_fini(&b);
}

static void check(const struct shape *s, struct thing t, const char *expected)
{
    check_lines(s, &t, SHAPE_AS_IT_IS, expected);
}

#define ROWS(when)                                                                                 \
    {MEMBER(struct thing, name, "name", when, NULL)},                                              \
        {MEMBER_JSON(struct thing, raw, "raw", when, NULL)},                                       \
        {MEMBER(struct thing, on, "on", when, NULL)},                                              \
        {MEMBER(struct thing, small, "small", when, NULL)},                                        \
        {MEMBER(struct thing, middle, "middle", when, NULL)},                                      \
        {MEMBER(struct thing, large, "large", when, NULL)},                                        \
        {MEMBER(struct thing, offset, "offset", when, NULL)},                                      \
        {MEMBER(struct thing, ratio, "ratio", when, NULL)},                                        \
        {MEMBER(struct thing, at, "at", when, NULL)},                                              \
        {MEMBER(struct thing, lasts, "lasts", when, NULL)},                                        \
        {MEMBER_WORD(struct thing, colour, "colour", when, &colours, NULL)},                       \
        {MEMBER_LIST(struct thing, names, name_count, "names", when, NULL)},                       \
    {                                                                                              \
        MEMBER_OBJECTS(struct thing, items, item_count, "items", when, &inner_shape, NULL)         \
    }

static void each_kind_is_written_as_json(void **state)
{
    static const struct shape_member members[] = {ROWS(ALWAYS)};
    static const struct shape shape = {SHAPE_MEMBERS(members)};
    (void)state;
    check(&shape, full(),
          "{\"name\":\"x\",\"raw\":[1,\n2],\"on\":true,\"small\":65535,\"middle\":4294967295,"
          "\"large\":7,\"offset\":-8,\"ratio\":0.5,\"at\":0,\"lasts\":0,\"colour\":\"blue\","
          "\"names\":[\"a\",\"\\\"\"],\"items\":[{\"depth\":1},{\"note\":\"n\"}]}");
}

static void what_is_not_set_is_left_out(void **state)
{
    static const struct shape_member members[] = {ROWS(IF_SET)};
    static const struct shape shape = {SHAPE_MEMBERS(members)};
    (void)state;
    check(&shape, empty(), "{}");
    struct thing t = empty();
    t.offset = -1;
    check(&shape, t, "{\"offset\":-1}");
}

static void what_is_not_set_is_null_where_the_table_says_so(void **state)
{
    static const struct shape_member members[] = {ROWS(OR_NULL)};
    static const struct shape shape = {SHAPE_MEMBERS(members)};
    (void)state;
    check(&shape, empty(),
          "{\"name\":null,\"raw\":null,\"on\":null,\"small\":null,\"middle\":null,\"large\":null,"
          "\"offset\":null,\"ratio\":null,\"at\":null,\"lasts\":null,\"colour\":null,"
          "\"names\":null,\"items\":null}");
}

static void what_is_always_there_is_written_as_it_is(void **state)
{
    static const struct shape_member members[] = {
        {MEMBER(struct thing, name, "name", ALWAYS, NULL)},
        {MEMBER(struct thing, at, "at", ALWAYS, NULL)},
        {MEMBER(struct thing, id, "id", ALWAYS, NULL)},
        {MEMBER_LIST(struct thing, names, name_count, "names", ALWAYS, NULL)},
    };
    static const struct shape shape = {SHAPE_MEMBERS(members)};
    (void)state;
    check(&shape, empty(),
          "{\"name\":\"\",\"at\":-1,\"id\":\"0000000000000000000000000\",\"names\":[]}");
}

static bool is_on(const void *thing)
{
    return ((const struct thing *)thing)->on;
}

static void write_length(struct buf *b, const void *str)
{
    buf_int(b, (int64_t)((const struct str *)str)->len);
}

static void write_sum(struct buf *b, const void *thing)
{
    const struct thing *t = thing;
    buf_int(b, (int64_t)t->middle + t->small);
}

static void functions_write_what_tables_cannot(void **state)
{
    static const struct shape_member members[] = {
        {MEMBER_OTHER(struct thing, name, "length", IF_SET, "integer", write_length, NULL)},
        {MEMBER_MADE("sum", IF_SET, "integer", write_sum, NULL, .is_set = is_on)},
    };
    static const struct shape shape = {SHAPE_MEMBERS(members)};
    (void)state;
    struct thing t = {.name = STR("four"), .on = true, .middle = 2, .small = 3};
    check(&shape, t, "{\"length\":4,\"sum\":5}");
    t.name.len = 0;
    check(&shape, t, "{\"sum\":5}");
    t.on = false;
    check(&shape, t, "{}");
}

static void objects_and_parts_have_tables_of_their_own(void **state)
{
    static const struct shape_member made[] = {{MEMBER(struct thing, name, "name", ALWAYS, NULL)}};
    static const struct shape made_shape = {SHAPE_MEMBERS(made)};
    static const struct shape_member members[] = {
        {MEMBER_OBJECT(struct thing, inner, "inner", OR_NULL, &inner_shape, NULL, .is_set = is_on)},
        {MEMBER_INNER("own", ALWAYS, &made_shape, NULL)},
        {MEMBERS_OF(struct thing, inner, &inner_shape), .is_set = is_on},
        {MEMBERS_INNER(&made_shape)},
    };
    static const struct shape shape = {SHAPE_MEMBERS(members)};
    (void)state;
    check(&shape, full(),
          "{\"inner\":{\"depth\":-1,\"note\":\"deep\"},\"own\":{\"name\":\"x\"},"
          "\"depth\":-1,\"note\":\"deep\",\"name\":\"x\"}");
    struct thing t = full();
    t.on = false;
    check(&shape, t, "{\"inner\":null,\"own\":{\"name\":\"x\"},\"name\":\"x\"}");
}

static void members_of_what_a_pointer_points_to_are_its_own(void **state)
{
    static const struct shape_member members[] = {{MEMBERS_AT(struct thing, other, &inner_shape)}};
    static const struct shape shape = {SHAPE_MEMBERS(members)};
    (void)state;
    check(&shape, full(), "{\"depth\":1}");
}

static void lists_are_arrays_or_pointed_to(void **state)
{
    static const struct shape_member members[] = {
        {MEMBER_LIST(struct thing, numbers, number_count, "array", IF_SET, NULL)},
        {MEMBER_LIST(struct thing, names, name_count, "pointer", IF_SET, NULL)},
    };
    static const struct shape shape = {SHAPE_MEMBERS(members)};
    (void)state;
    check(&shape, full(), "{\"array\":[3,2],\"pointer\":[\"a\",\"\\\"\"]}");
    check(&shape, empty(), "{}");
}

static void json_goes_on_one_line_where_that_is_asked_for(void **state)
{
    static const struct shape_member members[] = {
        {MEMBER_JSON(struct thing, raw, "raw", ALWAYS, NULL)},
    };
    static const struct shape shape = {SHAPE_MEMBERS(members)};
    (void)state;
    struct thing t = full();
    check_lines(&shape, &t, SHAPE_ONE_LINE, "{\"raw\":[1, 2]}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_is_written_as_json),
        cmocka_unit_test(what_is_not_set_is_left_out),
        cmocka_unit_test(what_is_not_set_is_null_where_the_table_says_so),
        cmocka_unit_test(what_is_always_there_is_written_as_it_is),
        cmocka_unit_test(functions_write_what_tables_cannot),
        cmocka_unit_test(objects_and_parts_have_tables_of_their_own),
        cmocka_unit_test(members_of_what_a_pointer_points_to_are_its_own),
        cmocka_unit_test(lists_are_arrays_or_pointed_to),
        cmocka_unit_test(json_goes_on_one_line_where_that_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
