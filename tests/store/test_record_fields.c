/* SPDX-License-Identifier: Apache-2.0 */
#include "core/job_fields.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "store/records.h"
#include "store/record.h"

/* Properties of every row of core/job_fields.def, including future ones. */

static const struct id ID = {1, 2};

static void set(const struct job_field *f, void *of)
{
    void *at = (char *)of + f->offset;
    switch (f->kind) {
    case JOB_FIELD_TEXT:
        *(struct str *)at = str_from(f->words);
        break;
    case JOB_FIELD_NUMBER:
        *(uint64_t *)at = UINT64_MAX - f->number;
        break;
    case JOB_FIELD_INSTANT:
        *(instant *)at = (instant){1700000000000 + f->number};
        break;
    case JOB_FIELD_REAL:
        *(double *)at = 0.5 / f->number;
        break;
    }
}

static struct job bare_job(void)
{
    return (struct job){
        .id = ID,
        .queue = STR("q"),
        .type = STR("t"),
        .payload = STR("1"),
        .retry_limit = RETRY_LIMIT_DEFAULT,
        .completed_retention = RETENTION_DEFAULT,
        .dead_retention = RETENTION_DEFAULT,
        .state = records_bare_state(),
    };
}

static struct str first_value(const struct batch *b)
{
    assert_true(b->count > 0);
    return b->ops[0].value;
}

static struct job job_through_store(struct batch *b, const struct job *job)
{
    record_put_job(b, job);
    struct job back;
    bool apart;
    assert_ok(record_read_job(first_value(b), ID, &back, &apart));
    return back;
}

static void numbers_ascend_from_1(void **state)
{
    (void)state;
    const struct job_fields *all[] = {&job_option_fields, &job_extra_fields};
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < all[i]->count; k++)
            assert_true(all[i]->at[k].number > (k ? all[i]->at[k - 1].number : 0));
}

static void each_field_alone_is_read_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < job_option_fields.count; i++) {
        struct job job = bare_job();
        set(&job_option_fields.at[i], &job.options);
        struct batch b = {0};
        struct job back = job_through_store(&b, &job);
        assert_true(job_options_eq(&job.options, &back.options));
        assert_true(job_field_is_set(&job_option_fields.at[i], &back.options));
        batch_fini(&b);
    }
    for (size_t i = 0; i < job_extra_fields.count; i++) {
        struct job job = bare_job();
        set(&job_extra_fields.at[i], &job.state.extras);
        struct batch b = {0};
        struct job back = job_through_store(&b, &job);
        assert_true(job_extras_eq(&job.state.extras, &back.state.extras));
        batch_fini(&b);
    }
}

static struct job job_with_all(void)
{
    struct job job = bare_job();
    for (size_t i = 0; i < job_option_fields.count; i++)
        set(&job_option_fields.at[i], &job.options);
    for (size_t i = 0; i < job_extra_fields.count; i++)
        set(&job_extra_fields.at[i], &job.state.extras);
    return job;
}

static void all_fields_together_are_read_back(void **state)
{
    (void)state;
    struct job job = job_with_all();
    struct batch b = {0};
    struct job back = job_through_store(&b, &job);
    assert_true(job_options_eq(&job.options, &back.options));
    assert_true(job_extras_eq(&job.state.extras, &back.state.extras));
    batch_fini(&b);
}

static void copies_outlive_their_origin(void **state)
{
    (void)state;
    struct job job = job_with_all();
    struct batch b = {0};
    struct job back = job_through_store(&b, &job);
    struct arena a = {0};
    struct job_options options = job_options_copy(&a, &back.options);
    struct job_extras extras = job_extras_copy(&a, &back.state.extras);
    struct job_extras *block = job_extras_new(&back.state.extras);
    batch_fini(&b); /* which held the texts of back */
    assert_true(job_options_eq(&options, &job.options));
    assert_true(job_extras_eq(&extras, &job.state.extras));
    assert_true(job_extras_eq(block, &job.state.extras));
    free(block);
    arena_fini(&a);
}

static void nothing_set_needs_no_block(void **state)
{
    (void)state;
    assert_null(job_extras_new(&(struct job_extras){0}));
}

/* The bytes of a state without extras, except for the end of its fields, followed by `tail`. */
static struct err read_with_fields(struct str tail)
{
    struct batch b = {0};
    struct job_state bare = records_bare_state();
    record_put_state(&b, ID, &bare);
    struct str value = first_value(&b);
    char bytes[256];
    size_t len = value.len - 1;
    assert_true(len + tail.len <= sizeof bytes);
    memcpy(bytes, value.at, len);
    memcpy(bytes + len, tail.at, tail.len);
    batch_fini(&b);
    struct job_state back;
    return record_read_state((struct str){bytes, len + tail.len}, &back);
}

static void fields_have_one_encoding(void **state)
{
    (void)state;
    assert_ok(read_with_fields(STR("\x00")));
    assert_ok(read_with_fields(STR("\x01\x01k\x02\x01n\x00")));
    assert_code(read_with_fields(STR("\x02\x01n\x01\x01k\x00")), ERR_CORRUPT); /* order */
    assert_code(read_with_fields(STR("\x01\x01k\x01\x01k\x00")), ERR_CORRUPT); /* twice */
    assert_code(read_with_fields(STR("\x01\x00\x00")), ERR_CORRUPT);           /* empty */
    assert_code(read_with_fields(STR("\xff\x7f\x01n\x00")), ERR_CORRUPT);      /* unknown */
    assert_code(read_with_fields(STR("\x01\x01k")), ERR_CORRUPT);              /* no end */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_ascend_from_1),
        cmocka_unit_test(each_field_alone_is_read_back),
        cmocka_unit_test(all_fields_together_are_read_back),
        cmocka_unit_test(copies_outlive_their_origin),
        cmocka_unit_test(nothing_set_needs_no_block),
        cmocka_unit_test(fields_have_one_encoding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
