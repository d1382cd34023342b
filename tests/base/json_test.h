/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_BASE_JSON_TEST_H
#define TESTS_BASE_JSON_TEST_H

/* Shared by the tests of the JSON scanner. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/array.h"
#include "base/json.h"
#include "json_walk.h"

static inline void assert_ok(struct err e)
{
    if (e.code != ERR_OK)
        fail_msg("%s at %d", e.msg, (int)e.offset);
}

static inline void assert_str(struct str got, const char *want)
{
    if (!str_eq(got, str_from(want)))
        fail_msg("\"%.*s\" is not \"%s\"", STR_ARG(got), want);
}

/* Texts of the grammar, of every kind. */
static const struct str accepted[] = {
    /* words */
    STR("null"),
    STR("true"),
    STR("false"),
    STR("[null,true,false]"),
    /* numbers */
    STR("0"),
    STR("-0"),
    STR("1"),
    STR("-1"),
    STR("10"),
    STR("1234567890"),
    STR("0.0"),
    STR("-0.0"),
    STR("0.5"),
    STR("1.25"),
    STR("-1.25"),
    STR("0.00001"),
    STR("1.000"),
    STR("0e0"),
    STR("0E0"),
    STR("0e+1"),
    STR("0e-1"),
    STR("1e5"),
    STR("1E5"),
    STR("1e+5"),
    STR("1E-5"),
    STR("1e05"),
    STR("1.5e10"),
    STR("-1.5E-10"),
    STR("1e400"),
    STR("-1e400"),
    STR("1e-400"),
    STR("1e99999999999999999999999"),
    STR("123456789012345678901234567890"),
    STR("0.123456789012345678901234567890"),
    STR("9223372036854775807"),
    STR("-9223372036854775808"),
    STR("[0,1.0,-2e2]"),
    STR("0 "),
    /* strings */
    STR("\"\""),
    STR("\"a\""),
    STR("\" \""),
    STR("\"a b\""),
    STR("\"/\""),
    STR("\"'\""),
    STR("\"a/*b*/c//d\""),
    STR("\"{}[],:\""),
    STR("\"\x7f\""),
    STR("\"0123456789abcde\""),
    STR("\"0123456789abcdef\""),
    STR("\"0123456789abcdefg\""),
    STR("\"0123456789abcdef0123456789abcdef\""),
    STR("\"\\\"\""),
    STR("\"\\\\\""),
    STR("\"\\/\""),
    STR("\"\\b\\f\\n\\r\\t\""),
    STR("\"\\\\\\\"\""),
    STR("\"\\\\n\""),
    STR("\"\\u0000\""),
    STR("\"\\u0041\""),
    STR("\"\\uabcd\\uABCD\\uAbCd\""),
    STR("\"\\uD834\\uDD1E\""),
    STR("\"\\ud834\\udd1e\""),
    STR("\"\\u0060\\u012a\\u12AB\""),
    STR("\"\\uFFFF\""),
    STR("\"\\ud800\""),
    STR("\"\\udc00\""),
    STR("\"\\ud800\\ud800\""),
    STR("\"\\udc00\\ud800\""),
    STR("\"\\ud800abc\""),
    STR("\"\xc2\x80\""),
    STR("\"\xdf\xbf\""),
    STR("\"\xe0\xa0\x80\""),
    STR("\"\xed\x9f\xbf\""),
    STR("\"\xee\x80\x80\""),
    STR("\"\xef\xbf\xbf\""),
    STR("\"\xf0\x90\x80\x80\""),
    STR("\"\xf4\x8f\xbf\xbf\""),
    STR("\"\xe2\x80\xa8\xe2\x80\xa9\""),
    STR("\"\xef\xbb\xbf\""),
    STR("\"0123456789abcd\xc3\xa9"
        "0123456789abcd\xf0\x9f\x98\x80\""),
    /* structure */
    STR("[]"),
    STR("[[]]"),
    STR("[[],[]]"),
    STR("[1]"),
    STR("[1,2]"),
    STR("[\"a\"]"),
    STR("[{}]"),
    STR("[[[[[[]]]]]]"),
    STR("[null,1,\"1\",{}]"),
    STR("{}"),
    STR("{\"\":0}"),
    STR("{\"a\":1}"),
    STR("{\"a\":1,\"b\":2}"),
    STR("{\"a\":1,\"a\":1}"),
    STR("{\"a\":[]}"),
    STR("{\"a\":{}}"),
    STR("{\"a\":{\"b\":{\"c\":[{\"d\":1}]}}}"),
    STR("{\"a\":[{},{},[]],\"b\":[[{}]]}"),
    STR("{\"a\\n\\u0041\":1}"),
    STR("{\"\xc3\xa9\":1}"),
    STR("{\"]\":\"}\"}"),
    /* white space */
    STR(" 1"),
    STR("1 "),
    STR("\t\n\r 1\r\n\t "),
    STR("[ ]"),
    STR("[\n]"),
    STR("{ }"),
    STR("{\t}"),
    STR("[ 1 , 2 ]"),
    STR("[1\n,2\n]"),
    STR("{ \"a\" : 1 , \"b\" : 2 }"),
    STR("{\r\n\"a\"\r\n:\r\n1\r\n}\r\n"),
    STR("                                        1                                        "),
};

#endif
