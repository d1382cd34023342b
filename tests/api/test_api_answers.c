/* SPDX-License-Identifier: Apache-2.0 */
/* What commands and workers take for the answer of a request that was done (client/whose.h),
 * against the table by which the server answers. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "api/api_routes.h"
#include "base/must.h"
#include "client/whose.h"

static const struct str foreign[] = {
    {"{\"ok\":true}", 11},
    {"{\"state\":\"ok\",\"data\":{}}", 24},
    {"{}", 2},
    {"[]", 2},
    {"\"signed out\"", 12},
    {"null", 4},
};

static const char *method_of(const struct endpoint *e)
{
    static const char *const names[] = {[HTTP_GET] = "GET",
                                        [HTTP_POST] = "POST",
                                        [HTTP_PUT] = "PUT",
                                        [HTTP_PATCH] = "PATCH",
                                        [HTTP_DELETE] = "DELETE"};
    return names[e->route.method];
}

/* The endpoint's path with a name for each of its parameters. */
static const char *path_of(const struct endpoint *e, struct buf *b)
{
    b->len = 0;
    for (const char *p = e->route.pattern; *p; p++) {
        if (*p != '{') {
            buf_byte(b, *p);
            continue;
        }
        buf_lit(b, "a-1.b%2Fc");
        p = strchr(p, '}');
    }
    buf_byte(b, '\0');
    return b->at;
}

/* The members that are always there. */
static void add_members(struct buf *b, const struct shape *shape)
{
    for (size_t i = 0; i < shape->count; i++) {
        const struct shape_member *m = &shape->members[i];
        if (m->kind == SHAPE_PART)
            add_members(b, m->shape);
        else if (m->when == ALWAYS)
            buf_print(b, "%.*s1", m->key_len, m->key);
    }
}

static struct str body_of(const struct shape *shape, struct buf *b)
{
    b->len = 0;
    add_members(b, shape);
    must(b->len);
    b->at[0] = '{';
    buf_byte(b, '}');
    return buf_view(b);
}

static void each_answer_of_the_server_is_taken_for_its(void **state)
{
    (void)state;
    struct buf path = {0}, body = {0};
    for (size_t i = 0; i < api_endpoint_count; i++) {
        const struct endpoint *e = &api_endpoints[i];
        const struct whose_rule *rule = whose_expects(method_of(e), path_of(e, &path));
        for (size_t k = 0; k < 3 && e->answers[k].status; k++) {
            const struct api_answer *a = &e->answers[k];
            if (a->status < 200 || a->status > 299 || (!a->shape && a->status != 204))
                continue;
            if (!a->shape)
                assert_true(whose_success(rule, 204, (struct str){0}));
            if (a->shape && !e->route.stream)
                assert_true(whose_success(rule, a->status, body_of(a->shape, &body)));
            if (a->or_shape && !e->route.stream)
                assert_true(whose_success(rule, a->status, body_of(a->or_shape, &body)));
        }
    }
    buf_fini(&path);
    buf_fini(&body);
}

/* Bodies that are no JSON object of the server's: a document, metrics, a stream, a backup. */
static bool is_any(const struct endpoint *e)
{
    return e->route.stream || (e->answers[0].status == 200 && !e->answers[0].shape);
}

static bool has_status(const struct endpoint *e, int status)
{
    for (size_t k = 0; k < 3; k++)
        if (e->answers[k].status == status)
            return true;
    return false;
}

static void what_another_answers_is_not(void **state)
{
    (void)state;
    struct buf path = {0};
    for (size_t i = 0; i < api_endpoint_count; i++) {
        const struct endpoint *e = &api_endpoints[i];
        const struct whose_rule *rule = whose_expects(method_of(e), path_of(e, &path));
        if (is_any(e))
            continue;
        for (int status = 200; status < 208; status++) {
            bool empty = status == 204 && has_status(e, 204);
            assert_int_equal(whose_success(rule, status, (struct str){0}), empty);
            for (size_t k = 0; k < sizeof foreign / sizeof *foreign; k++)
                if (whose_success(rule, status, foreign[k]))
                    fail_msg("%s: %d %s", e->id, status, foreign[k].at);
        }
    }
    buf_fini(&path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_answer_of_the_server_is_taken_for_its),
        cmocka_unit_test(what_another_answers_is_not),
    };
    return cmocka_run_group_tests_name("api/api_answers", tests, NULL, NULL);
}
