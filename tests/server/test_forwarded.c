/* SPDX-License-Identifier: Apache-2.0 */

/* What servers say of a request that they pass on: read as it was written, and by nobody else. */

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "server/forwarded.h"

#define SECRET STR("a secret of thirty-two bytes, yes")
#define EPOCH  UINT64_C(4711)

static const char label[] = "Tenax-Forwarded: ";

struct fixture {
    struct arena arena;
    struct http_request req;
    struct buf header;
};

static struct http_request request(struct fixture *f)
{
    return (struct http_request){
        .method = HTTP_POST, .path = STR("/jobs"), .query = STR("a=b"), .arena = &f->arena};
}

static int setup(void **state)
{
    static struct fixture f;
    struct forwarded sent = {.admin = true,
                             .tls = true,
                             .host = STR("queue.example:7890"),
                             .peer = {.address = "10.1.2.3",
                                      .subject = STR("CN=mail,O=Acme"),
                                      .names = STR("DNS:a.example\nURI:spiffe://a/b\n")}};
    f = (struct fixture){0};
    f.req = request(&f);
    forwarded_write(&f.header, &sent, EPOCH, SECRET, &f.req);
    f.req.forwarded = str_from(f.header.at + sizeof label - 1);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    arena_fini(&f->arena);
    buf_fini(&f->header);
    return 0;
}

static enum err_code read_code(const struct http_request *req, uint64_t epoch, struct str secret)
{
    struct forwarded got;
    return forwarded_read(req, epoch, secret, &got).code;
}

static void is_read_as_it_was_written(void **state)
{
    struct fixture *f = *state;
    struct forwarded got;
    assert_memory_equal(f->header.at, label, sizeof label - 1);
    assert_int_equal(forwarded_read(&f->req, EPOCH, SECRET, &got).code, ERR_OK);
    assert_true(got.admin && got.tls);
    assert_string_equal(got.peer.address, "10.1.2.3");
    assert_true(str_eq(got.host, STR("queue.example:7890")));
    assert_true(str_eq(got.peer.subject, STR("CN=mail,O=Acme")));
    assert_true(str_eq(got.peer.names, STR("DNS:a.example\nURI:spiffe://a/b\n")));
}

static void may_be_empty(void **state)
{
    struct fixture *f = *state;
    struct forwarded sent = {0}, got;
    f->header.len = 0;
    forwarded_write(&f->header, &sent, EPOCH, SECRET, &f->req);
    f->req.forwarded = str_from(f->header.at + sizeof label - 1);
    assert_int_equal(forwarded_read(&f->req, EPOCH, SECRET, &got).code, ERR_OK);
    assert_false(got.admin || got.tls);
    assert_int_equal(got.host.len + got.peer.subject.len + got.peer.names.len, 0);
    assert_string_equal(got.peer.address, "");
}

static void is_for_one_request_and_epoch(void **state)
{
    struct fixture *f = *state;
    struct http_request other = f->req;
    other.method = HTTP_DELETE;
    assert_int_equal(read_code(&other, EPOCH, SECRET), ERR_FORBIDDEN);
    other = f->req;
    other.path = STR("/job");
    assert_int_equal(read_code(&other, EPOCH, SECRET), ERR_FORBIDDEN);
    other = f->req;
    other.query = STR("a=c");
    assert_int_equal(read_code(&other, EPOCH, SECRET), ERR_FORBIDDEN);
    assert_int_equal(read_code(&f->req, EPOCH + 1, SECRET), ERR_NO_OWNER);
    assert_int_equal(read_code(&f->req, EPOCH, STR("another secret")), ERR_FORBIDDEN);
}

/* Every byte changed, every length cut. */
static void nothing_else_is_read(void **state)
{
    struct fixture *f = *state;
    size_t len = f->req.forwarded.len;
    char text[1024];
    assert_true(len < sizeof text);
    for (size_t i = 0; i < len; i++) {
        memcpy(text, f->req.forwarded.at, len + 1);
        text[i] = text[i] == 'A' ? 'B' : 'A';
        struct http_request other = f->req;
        other.forwarded = (struct str){text, len};
        assert_int_equal(read_code(&other, EPOCH, SECRET), ERR_FORBIDDEN);
        other.forwarded.len = i;
        assert_int_equal(read_code(&other, EPOCH, SECRET), ERR_FORBIDDEN);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(is_read_as_it_was_written, setup, teardown),
        cmocka_unit_test_setup_teardown(may_be_empty, setup, teardown),
        cmocka_unit_test_setup_teardown(is_for_one_request_and_epoch, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_else_is_read, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
