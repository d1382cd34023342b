/* SPDX-License-Identifier: Apache-2.0 */

/* To be included before a list of rows (api_job.def says what they are): it makes rows of a table
 * of them. OWNER is the struct that they are about. */

#undef VALUE
#undef VALUE_IF
#undef WORD
#undef OBJECT_IF
#undef INNER_IF
#undef MADE_IF
#undef PART_IF

#define VALUE(field, name, when, ...) {MEMBER(OWNER, field, name, when, __VA_ARGS__)},
#define VALUE_IF(is_set_, field, name, ...)                                                        \
    {MEMBER(OWNER, field, name, IF_SET, __VA_ARGS__), .is_set = (is_set_)},
#define WORD(field, name, when, words, doc) {MEMBER_WORD(OWNER, field, name, when, words, doc)},
#define OBJECT_IF(is_set_, field, name, shape, doc)                                                \
    {MEMBER_OBJECT(OWNER, field, name, IF_SET, shape, doc), .is_set = (is_set_)},
#define INNER_IF(is_set_, name, shape, doc)                                                        \
    {MEMBER_INNER(name, IF_SET, shape, doc), .is_set = (is_set_)},
#define MADE_IF(is_set_, name, type, write, doc)                                                   \
    {MEMBER_MADE(name, IF_SET, type, write, doc), .is_set = (is_set_)},
#define PART_IF(is_set_, shape) {MEMBERS_INNER(shape), .is_set = (is_set_)},
