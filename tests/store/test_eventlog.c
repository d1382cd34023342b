#include <stdio.h>
/* SPDX-License-Identifier: Apache-2.0 */
#include "store/eventlog.h"

#include "store/cm.h"

static const struct id ID = {0x0123456789abcdefu, 0xfedcba9876543210u};
#define TRACE "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
static const struct event_mark MARK = {{1700000000500}, {1, 2}};

static struct job_event enqueued(uint64_t number, uint64_t id)
{
    return (struct job_event){.number = number,
                              .at = {1700000000000},
                              .id = {ID.hi, ID.lo + id},
                              .queue = STR("mail"),
                              .type = STR("send"),
                              .event = EVENT_ENQUEUE,
                              .from = STATUS_GONE,
                              .to = STATUS_READY,
                              .run = -1,
                              .ready_at = INSTANT_NONE,
                              .lease_end = INSTANT_NONE,
                              .priority = 32768,
                              .ruling = RULING_NONE};
}

static struct job_event retried(uint64_t number)
{
    return (struct job_event){.number = number,
                              .at = {1700000000007},
                              .id = ID,
                              .queue = STR("mail"),
                              .type = STR("send"),
                              .event = EVENT_RETRY,
                              .from = STATUS_IN_FLIGHT,
                              .to = STATUS_SCHEDULED,
                              .run = 3,
                              .lease_end = INSTANT_NONE,
                              .priority = 32768,
                              .attempt = 2,
                              .ready_at = {1700000030007},
                              .worker = STR("w1"),
                              .reason = STR("retry 2 of 3"),
                              .ruling = {STR("infra"), 1, 2, 3, DECIDER_RULE}};
}

static struct job_event removed(uint64_t number)
{
    struct job_event ev = retried(number);
    ev.event = EVENT_SUCCEED;
    ev.to = STATUS_COMPLETED;
    ev.removed = true;
    ev.ready_at = INSTANT_NONE;
    ev.reason = (struct str){0};
    ev.ruling = RULING_NONE;
    return ev;
}

static struct job_event resolved(uint64_t number)
{
    struct job_event ev = enqueued(number, 0);
    ev.at.ms += 7;
    ev.event = EVENT_GROUP_RESOLVED;
    ev.from = ev.to = STATUS_DEAD;
    ev.group = STR("group");
    ev.priority = -1;
    return ev;
}

static struct job_event sealed(uint64_t number)
{
    struct job_event ev = resolved(number);
    ev.event = EVENT_GROUP_SEALED;
    ev.id = (struct id){0};
    ev.queue = ev.type = (struct str){0};
    ev.from = ev.to = STATUS_GONE;
    return ev;
}

static struct job_event reprioritized(uint64_t number)
{
    struct job_event ev = enqueued(number, 0);
    ev.event = EVENT_REPRIORITIZE;
    ev.from = ev.to = STATUS_READY;
    ev.runs = 2;
    ev.old_priority = 32768;
    ev.priority = 5;
    return ev;
}

static struct job_event taken(uint64_t number)
{
    struct job_event ev = enqueued(number, 0);
    ev.event = EVENT_TAKE;
    ev.from = STATUS_READY;
    ev.to = STATUS_IN_FLIGHT;
    ev.run = 0;
    ev.attempt = 1;
    ev.worker = STR("w1");
    ev.lease_end.ms = ev.at.ms + 1200;
    return ev;
}

static struct job_event left(uint64_t number)
{
    struct job_event ev = taken(number);
    ev.event = EVENT_ARTIFACT;
    ev.from = ev.to = STATUS_IN_FLIGHT;
    ev.lease_end = INSTANT_NONE;
    ev.attempt = 0;
    ev.runs = 3;
    ev.artifact = STR("public/log");
    return ev;
}

static struct job_event group_reprioritized(uint64_t number)
{
    struct job_event ev = sealed(number);
    ev.event = EVENT_GROUP_REPRIORITIZE;
    ev.priority = 5;
    ev.jobs = 300;
    return ev;
}

/* As versions before 5 had it: only a change of a priority tells it, and no lease. */
static void make_old(struct job_event *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        list[i].runs = 0;
        if (list[i].event != EVENT_REPRIORITIZE)
            list[i].priority = -1;
    }
}

static void assert_text(struct str got, struct str want)
{
    assert_int_equal(got.len, want.len);
    if (want.len)
        assert_memory_equal(got.at, want.at, want.len);
}

static void assert_event(const struct job_event *got, const struct job_event *want)
{
    assert_int_equal(got->number, want->number);
    assert_int_equal(got->at.ms, want->at.ms);
    assert_true(id_eq(got->id, want->id));
    assert_text(got->queue, want->queue);
    assert_text(got->type, want->type);
    assert_int_equal(got->event, want->event);
    assert_int_equal(got->from, want->from);
    assert_int_equal(got->to, want->to);
    assert_int_equal(got->removed, want->removed);
    assert_int_equal(got->run, want->run);
    assert_int_equal(got->attempt, want->attempt);
    assert_int_equal(got->ready_at.ms, want->ready_at.ms);
    assert_text(got->worker, want->worker);
    assert_text(got->reason, want->reason);
    assert_text(got->group, want->group);
    assert_int_equal(got->old_priority, want->old_priority);
    assert_int_equal(got->priority, want->priority);
    assert_int_equal(got->lease_end.ms, want->lease_end.ms);
    assert_int_equal(got->runs, want->runs);
    assert_int_equal(got->jobs, want->jobs);
    assert_text(got->artifact, want->artifact);
    assert_text(got->traceparent, want->traceparent);
    assert_int_equal(got->culprit, want->culprit);
    assert_text(got->culprit_evidence, want->culprit_evidence);
    assert_text(got->category, want->category);
    assert_text(got->subcategory, want->subcategory);
    assert_text(got->message, want->message);
    assert_int_equal(got->exit_code, want->exit_code);
    assert_text(got->ruling.policy, want->ruling.policy);
    assert_int_equal(got->ruling.by, want->ruling.by);
    assert_int_equal(got->ruling.limit, want->ruling.limit);
    if (want->ruling.limit < 0)
        return;
    assert_int_equal(got->ruling.rule, want->ruling.rule);
    assert_int_equal(got->ruling.count, want->ruling.count);
}

/* One record of them; the caller releases the batch. */
static struct str write_all(struct batch *b, const struct job_event *list, size_t count)
{
    struct eventlog_writer w = {.before = 1000};
    for (size_t i = 0; i < count; i++)
        eventlog_add(&w, &list[i]);
    eventlog_flush(&w, &MARK, b);
    struct record_key key = eventlog_key(list[0].number);
    const struct batch_op *op = batch_find(b, record_key_view(&key));
    assert_non_null(op);
    assert_int_equal(w.before, 1000 + key.len + op->value.len);
    assert_int_equal(w.count, 0);
    eventlog_writer_fini(&w);
    return op->value;
}

static struct err read_all(struct str value, uint64_t first)
{
    struct eventlog_head head;
    struct eventlog_reader r;
    struct job_event ev;
    bool more = true;
    TRY(eventlog_open(value, first, &head, &r));
    while (more)
        TRY(eventlog_next(&r, &more, &ev));
    return err_none();
}

/* The next record says all that the one before has said. */
static void a_record_is_read_without_the_one_before(void **state)
{
    (void)state;
    struct eventlog_writer w = {0};
    for (uint64_t number = 41; number < 43; number++) {
        struct batch b = {0};
        const struct job_event ev = enqueued(number, number);
        eventlog_add(&w, &ev);
        eventlog_flush(&w, &MARK, &b);
        struct record_key key = eventlog_key(number);
        struct eventlog_head head;
        struct eventlog_reader r;
        struct job_event got;
        bool more;
        assert_ok(eventlog_open(batch_find(&b, record_key_view(&key))->value, number, &head, &r));
        assert_ok(eventlog_next(&r, &more, &got));
        assert_event(&got, &ev);
        batch_fini(&b);
    }
    eventlog_writer_fini(&w);
}

static void events_are_read_back_as_they_were_written(void **state)
{
    (void)state;
    struct job_event list[] = {enqueued(41, 0),
                               enqueued(42, 1),
                               retried(43),
                               removed(44),
                               resolved(45),
                               sealed(46),
                               enqueued(47, 300),
                               reprioritized(48),
                               taken(49),
                               left(50),
                               group_reprioritized(51),
                               left(52)};
    list[1].traceparent = list[2].traceparent = STR(TRACE);
    list[9].traceparent = STR(TRACE);
    size_t count = sizeof list / sizeof *list;
    struct batch b = {0};
    struct str value = write_all(&b, list, count);
    struct eventlog_head head;
    struct eventlog_reader r;
    assert_int_equal(eventlog_open(value, 41, &head, &r).code, ERR_OK);
    assert_int_equal(head.count, count);
    assert_int_equal(head.at.ms, list[0].at.ms);
    assert_int_equal(head.before, 1000);
    assert_int_equal(head.mark.at.ms, MARK.at.ms);
    assert_true(id_eq(head.mark.id, MARK.id));
    bool more;
    struct job_event ev;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(eventlog_next(&r, &more, &ev).code, ERR_OK);
        assert_true(more);
        assert_event(&ev, &list[i]);
    }
    assert_int_equal(eventlog_next(&r, &more, &ev).code, ERR_OK);
    assert_false(more);
    batch_fini(&b);
}

static void alike_events_take_a_dozen_bytes_each(void **state)
{
    (void)state;
    struct job_event list[1000];
    for (size_t i = 0; i < 1000; i++)
        list[i] = enqueued(1 + i, i);
    struct batch b = {0};
    assert_in_range(write_all(&b, list, 1000).len, 1000, 12000);
    batch_fini(&b);
}

static void the_bytes_of_version_1_are_read_still(void **state)
{
    (void)state;
    static const char golden[] =
        "\x01\x81\xd0\x95\xff\xbc\x31\x02\xe8\x07\xf5\xd3\x95\xff\xbc\x31"
        "\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02"
        "\x0c\x06\x0c\0\x01\x23\x45\x67\x89\xab\xcd\xef\xfe\xdc\xba\x98\x76\x54\x32\x10\0\x04mail"
        "\x04"
        "send"
        "\x04\x73\x03\x10\x0e\x02w1\x0cretry 2 of 3\x03\x02\xe0\xd4\x03\x05infra\x02\x02\x03";
    struct job_event list[] = {enqueued(41, 0), retried(42)}, ev;
    struct eventlog_head head;
    struct eventlog_reader r;
    bool more;
    make_old(list, 2);
    list[1].ruling.by = DECIDER_NONE;
    assert_int_equal(eventlog_open((struct str){golden, sizeof golden - 1}, 41, &head, &r).code,
                     ERR_OK);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(eventlog_next(&r, &more, &ev).code, ERR_OK);
        assert_event(&ev, &list[i]);
    }
    /* It has no flag for who decided. */
    char bytes[sizeof golden];
    memcpy(bytes, golden, sizeof golden);
    bytes[33] |= (char)0x80;
    assert_int_equal(read_all((struct str){bytes, sizeof golden - 1}, 41).code, ERR_CORRUPT);
}

static void the_bytes_of_version_2_are_read_still(void **state)
{
    (void)state;
    static const char golden[] =
        "\x02\x81\xd0\x95\xff\xbc\x31\x02\xe8\x07\xf5\xd3\x95\xff\xbc\x31"
        "\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02"
        "\x0c\x06\x0c\0\x01\x23\x45\x67\x89\xab\xcd\xef\xfe\xdc\xba\x98\x76\x54\x32\x10\0\x04mail"
        "\x04"
        "send"
        "\x04\xf3\x03\x10\x0e\x02w1\x0cretry 2 of 3\x03\x02\xe0\xd4\x03\x05infra\x02\x02\x03\x03";
    struct job_event list[] = {enqueued(41, 0), retried(42)}, ev;
    struct eventlog_head head;
    struct eventlog_reader r;
    bool more;
    make_old(list, 2);
    assert_int_equal(eventlog_open((struct str){golden, sizeof golden - 1}, 41, &head, &r).code,
                     ERR_OK);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(eventlog_next(&r, &more, &ev).code, ERR_OK);
        assert_event(&ev, &list[i]);
    }
    /* It knows no events of groups. */
    char bytes[sizeof golden];
    memcpy(bytes, golden, sizeof golden);
    bytes[32] = EVENT_GROUP_SEALED;
    assert_int_equal(read_all((struct str){bytes, sizeof golden - 1}, 41).code, ERR_CORRUPT);
}

static void the_bytes_of_version_3_are_read_still(void **state)
{
    (void)state;
    static const char golden[] =
        "\x03\x81\xd0\x95\xff\xbc\x31\x03\xe8\x07\xf5\xd3\x95\xff\xbc\x31"
        "\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02"
        "\x0c\x06\x0c\0\x01\x23\x45\x67\x89\xab\xcd\xef\xfe\xdc\xba\x98\x76\x54\x32\x10\0\x04mail"
        "\x04"
        "send"
        "\x04\xf3\x03\x10\x0e\x02w1\x0cretry 2 of 3\x03\x02\xe0\xd4\x03\x05infra\x02\x02\x03\x03"
        "\x14\x05\x03\x10\0\0\0\x05group";
    struct job_event list[] = {enqueued(41, 0), retried(42), resolved(43)}, ev;
    struct eventlog_head head;
    struct eventlog_reader r;
    bool more;
    make_old(list, 3);
    assert_int_equal(eventlog_open((struct str){golden, sizeof golden - 1}, 41, &head, &r).code,
                     ERR_OK);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(eventlog_next(&r, &more, &ev).code, ERR_OK);
        assert_event(&ev, &list[i]);
    }
}

static void the_bytes_of_version_4_are_read_still(void **state)
{
    (void)state;
    static const char golden[] =
        "\x04\x81\xd0\x95\xff\xbc\x31\x04\xe8\x07\xf5\xd3\x95\xff\xbc\x31"
        "\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02"
        "\x0c\x06\x0c\0\x01\x23\x45\x67\x89\xab\xcd\xef\xfe\xdc\xba\x98\x76\x54\x32\x10\0\x04mail"
        "\x04"
        "send"
        "\x04\xf3\x03\x10\x0e\x02w1\x0cretry 2 of 3\x03\x02\xe0\xd4\x03\x05infra\x02\x02\x03\x03"
        "\x14\x05\x03\x10\0\0\0\x05group"
        "\x16\x02\x0f\x10\x0d\x80\x80\x02\x05";
    struct job_event list[] = {enqueued(41, 0), retried(42), resolved(43), reprioritized(44)}, ev;
    struct eventlog_head head;
    struct eventlog_reader r;
    bool more;
    make_old(list, 4);
    assert_int_equal(eventlog_open((struct str){golden, sizeof golden - 1}, 41, &head, &r).code,
                     ERR_OK);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(eventlog_next(&r, &more, &ev).code, ERR_OK);
        assert_event(&ev, &list[i]);
    }
    /* It knows no files. */
    char bytes[sizeof golden];
    memcpy(bytes, golden, sizeof golden);
    bytes[sizeof golden - 10] = EVENT_ARTIFACT;
    assert_int_equal(read_all((struct str){bytes, sizeof golden - 1}, 41).code, ERR_CORRUPT);
}

static void the_bytes_of_version_5_are_read_still(void **state)
{
    (void)state;
    static const char golden[] =
        "\x05\x81\xd0\x95\xff\xbc\x31\x07\xe8\x07\xf5\xd3\x95\xff\xbc\x31\x00\x00\x00\x00"
        "\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x0c\x06\x0c\x00\x01\x23\x45\x67"
        "\x89\xab\xcd\xef\xfe\xdc\xba\x98\x76\x54\x32\x10\x00\x04\x6d\x61\x69\x6c\x04\x73"
        "\x65\x6e\x64\x80\x80\x02\x04\xf3\x13\x10\x0e\x02\x77\x31\x0c\x72\x65\x74\x72\x79"
        "\x20\x32\x20\x6f\x66\x20\x33\x03\x02\xe0\xd4\x03\x05\x69\x6e\x66\x72\x61\x02\x02"
        "\x03\x03\x14\x05\x13\x10\x00\x00\x00\x05\x67\x72\x6f\x75\x70\x02\x12\x1b\x10\x0d"
        "\x02\x77\x31\x00\x01\xb1\x09\x16\x02\x0b\x10\x00\x00\x80\x80\x02\x02\x05\x18\x13"
        "\x0b\x10\x00\x02\x77\x31\x00\x00\x03\x0a\x70\x75\x62\x6c\x69\x63\x2f\x6c\x6f\x67"
        "\x80\x80\x02\x17\x06\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
        "\x00\x00\x00\x0e\x00\x00\x00\x05\x67\x72\x6f\x75\x70\xac\x02\x05";
    struct job_event list[] = {enqueued(41, 0),   retried(42), resolved(43),           taken(44),
                               reprioritized(45), left(46),    group_reprioritized(47)},
                     ev;
    struct eventlog_head head;
    struct eventlog_reader r;
    bool more;
    assert_int_equal(eventlog_open((struct str){golden, sizeof golden - 1}, 41, &head, &r).code,
                     ERR_OK);
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(eventlog_next(&r, &more, &ev).code, ERR_OK);
        assert_event(&ev, &list[i]);
    }
    /* It has no traceparent. */
    char bytes[sizeof golden];
    memcpy(bytes, golden, sizeof golden);
    bytes[34] |= 0x20;
    assert_int_equal(read_all((struct str){bytes, sizeof golden - 1}, 41).code, ERR_CORRUPT);
}

static void the_bytes_of_version_6_are_read_still(void **state)
{
    (void)state;
    static const char golden[] =
        "\x06\x81\xd0\x95\xff\xbc\x31\x07\xe8\x07\xf5\xd3\x95\xff\xbc\x31\x00\x00\x00\x00"
        "\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x0c\x06\x2c\x00\x01\x23\x45\x67"
        "\x89\xab\xcd\xef\xfe\xdc\xba\x98\x76\x54\x32\x10\x00\x04\x6d\x61\x69\x6c\x04\x73"
        "\x65\x6e\x64\x80\x80\x02\x04\xf3\x33\x10\x0e\x02\x77\x31\x0c\x72\x65\x74\x72\x79"
        "\x20\x32\x20\x6f\x66\x20\x33\x03\x02\xe0\xd4\x03\x05\x69\x6e\x66\x72\x61\x02\x02"
        "\x03\x03\x14\x05\x33\x10\x00\x00\x00\x05\x67\x72\x6f\x75\x70\x02\x12\x1b\x10\x0d"
        "\x02\x77\x31\x00\x01\xb1\x09\x37" TRACE "\x16\x02\x2b\x10\x00\x00\x80\x80\x02\x02"
        "\x05\x18\x13\x0b\x10\x00\x02\x77\x31\x00\x00\x03\x0a\x70\x75\x62\x6c\x69\x63\x2f"
        "\x6c\x6f\x67\x80\x80\x02\x00\x17\x06\x28\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
        "\x00\x00\x00\x00\x00\x00\x00\x0e\x00\x00\x00\x05\x67\x72\x6f\x75\x70\xac\x02\x05";
    struct job_event list[] = {enqueued(41, 0),   retried(42), resolved(43),           taken(44),
                               reprioritized(45), left(46),    group_reprioritized(47)},
                     ev;
    struct eventlog_head head;
    struct eventlog_reader r;
    bool more;
    list[3].traceparent = list[4].traceparent = STR(TRACE);
    assert_int_equal(eventlog_open((struct str){golden, sizeof golden - 1}, 41, &head, &r).code,
                     ERR_OK);
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(eventlog_next(&r, &more, &ev).code, ERR_OK);
        assert_event(&ev, &list[i]);
    }
    /* It has no culprit. */
    char bytes[sizeof golden];
    memcpy(bytes, golden, sizeof golden);
    bytes[34] |= 0x40;
    assert_int_equal(read_all((struct str){bytes, sizeof golden - 1}, 41).code, ERR_CORRUPT);
}

static void the_bytes_of_version_7_are_read_still(void **state)
{
    (void)state;
    static const char golden[] =
        "\x07\x81\xd0\x95\xff\xbc\x31\x07\xe8\x07\xf5\xd3\x95\xff\xbc\x31\x00\x00\x00\x00"
        "\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x0c\x06\x2c\x00\x01\x23\x45\x67"
        "\x89\xab\xcd\xef\xfe\xdc\xba\x98\x76\x54\x32\x10\x00\x04\x6d\x61\x69\x6c\x04\x73"
        "\x65\x6e\x64\x80\x80\x02\x04\xf3\x73\x10\x0e\x02\x77\x31\x0c\x72\x65\x74\x72\x79"
        "\x20\x32\x20\x6f\x66\x20\x33\x03\x02\xe0\xd4\x03\x05\x69\x6e\x66\x72\x61\x02\x02"
        "\x03\x03\x04\x04\x6e\x32\x3a\x21\x14\x05\x33\x10\x00\x00\x00\x05\x67\x72\x6f\x75\x70\x02"
        "\x12\x1b\x10\x0d"
        "\x02\x77\x31\x00\x01\xb1\x09\x37" TRACE "\x16\x02\x2b\x10\x00\x00\x80\x80\x02\x02"
        "\x05\x18\x13\x0b\x10\x00\x02\x77\x31\x00\x00\x03\x0a\x70\x75\x62\x6c\x69\x63\x2f"
        "\x6c\x6f\x67\x80\x80\x02\x00\x17\x06\x28\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
        "\x00\x00\x00\x00\x00\x00\x00\x0e\x00\x00\x00\x05\x67\x72\x6f\x75\x70\xac\x02\x05";
    struct job_event list[] = {enqueued(41, 0),   retried(42), resolved(43),           taken(44),
                               reprioritized(45), left(46),    group_reprioritized(47)},
                     ev;
    struct eventlog_head head;
    struct eventlog_reader r;
    bool more;
    list[1].culprit = CULPRIT_NODE;
    list[1].culprit_evidence = STR("n2:!");
    list[3].traceparent = list[4].traceparent = STR(TRACE);
    assert_int_equal(eventlog_open((struct str){golden, sizeof golden - 1}, 41, &head, &r).code,
                     ERR_OK);
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(eventlog_next(&r, &more, &ev).code, ERR_OK);
        assert_event(&ev, &list[i]);
    }
    /* It has no failure. */
    char bytes[sizeof golden];
    memcpy(bytes, golden, sizeof golden);
    bytes[34] |= (char)0x80;
    assert_int_equal(read_all((struct str){bytes, sizeof golden - 1}, 41).code, ERR_CORRUPT);
}

static void the_bytes_of_version_8_stay(void **state)
{
    (void)state;
    static const char golden[] =
        "\x08\x81\xd0\x95\xff\xbc\x31\x07\xe8\x07\xf5\xd3\x95\xff\xbc\x31\x00\x00\x00\x00"
        "\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x0c\x06\x2c\x00\x01\x23\x45\x67"
        "\x89\xab\xcd\xef\xfe\xdc\xba\x98\x76\x54\x32\x10\x00\x04\x6d\x61\x69\x6c\x04\x73"
        "\x65\x6e\x64\x80\x80\x02\x04\xf3\xf3\x10\x0e\x02\x77\x31\x0c\x72\x65\x74\x72\x79"
        "\x20\x32\x20\x6f\x66\x20\x33\x03\x02\xe0\xd4\x03\x05\x69\x6e\x66\x72\x61\x02\x02"
        "\x03\x03\x04\x04\x6e\x32\x3a\x21\x03"
        "gpu\x04"
        "lost\x94\x01\x02no\x14\x05\x33\x10\x00\x00\x00\x05\x67\x72\x6f\x75\x70\x02"
        "\x12\x1b\x10\x0d"
        "\x02\x77\x31\x00\x01\xb1\x09\x37" TRACE "\x16\x02\x2b\x10\x00\x00\x80\x80\x02\x02"
        "\x05\x18\x13\x0b\x10\x00\x02\x77\x31\x00\x00\x03\x0a\x70\x75\x62\x6c\x69\x63\x2f"
        "\x6c\x6f\x67\x80\x80\x02\x00\x17\x06\x28\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
        "\x00\x00\x00\x00\x00\x00\x00\x0e\x00\x00\x00\x05\x67\x72\x6f\x75\x70\xac\x02\x05";
    struct job_event list[] = {enqueued(41, 0),   retried(42), resolved(43),           taken(44),
                               reprioritized(45), left(46),    group_reprioritized(47)};
    list[1].culprit = CULPRIT_NODE;
    list[1].culprit_evidence = STR("n2:!");
    list[1].category = STR("gpu");
    list[1].subcategory = STR("lost");
    list[1].exit_code = 74;
    list[1].message = STR("no");
    list[3].traceparent = list[4].traceparent = STR(TRACE);
    struct batch b = {0};
    struct str value = write_all(&b, list, 7);
    assert_int_equal(value.len, sizeof golden - 1);
    assert_memory_equal(value.at, golden, value.len);
    struct eventlog_head head;
    struct eventlog_reader r;
    struct job_event ev;
    bool more;
    assert_int_equal(eventlog_open(value, 41, &head, &r).code, ERR_OK);
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(eventlog_next(&r, &more, &ev).code, ERR_OK);
        assert_event(&ev, &list[i]);
    }
    batch_fini(&b);
}

static void a_record_cut_short_anywhere_is_corrupt(void **state)
{
    (void)state;
    struct job_event list[] = {enqueued(41, 0), retried(42)};
    struct batch b = {0};
    struct str value = write_all(&b, list, 2);
    for (size_t n = 0; n < value.len; n++)
        assert_int_equal(read_all((struct str){value.at, n}, 41).code, ERR_CORRUPT);
    assert_int_equal(read_all(value, 41).code, ERR_OK);
    batch_fini(&b);
}

static void what_nobody_wrote_is_refused(void **state)
{
    (void)state;
    struct job_event list[] = {enqueued(41, 0)};
    struct batch b = {0};
    struct str value = write_all(&b, list, 1);
    char bytes[200];
    assert_in_range(value.len, 1, sizeof bytes - 1);
    memcpy(bytes, value.at, value.len);
    bytes[0] = 9;
    assert_int_equal(read_all((struct str){bytes, value.len}, 41).code, ERR_VERSION);
    memcpy(bytes, value.at, value.len);
    bytes[32] = EVENT_SUCCEED; /* a job that does not exist cannot succeed */
    assert_int_equal(read_all((struct str){bytes, value.len}, 41).code, ERR_CORRUPT);
    memcpy(bytes, value.at, value.len);
    bytes[value.len] = 0;
    assert_int_equal(read_all((struct str){bytes, value.len + 1}, 41).code, ERR_CORRUPT);
    batch_fini(&b);
}

static void keys_are_in_the_order_of_their_numbers(void **state)
{
    (void)state;
    struct record_key a = eventlog_key(255), b = eventlog_key(256);
    uint64_t first;
    assert_true(memcmp(a.bytes, b.bytes, a.len) < 0);
    assert_true(eventlog_key_is(record_key_view(&b), &first));
    assert_int_equal(first, 256);
    assert_false(eventlog_key_is(STR("V1234567"), &first));
    assert_false(eventlog_key_is(STR("T12345678"), &first));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_read_back_as_they_were_written),
        cmocka_unit_test(a_record_is_read_without_the_one_before),
        cmocka_unit_test(alike_events_take_a_dozen_bytes_each),
        cmocka_unit_test(the_bytes_of_version_1_are_read_still),
        cmocka_unit_test(the_bytes_of_version_2_are_read_still),
        cmocka_unit_test(the_bytes_of_version_3_are_read_still),
        cmocka_unit_test(the_bytes_of_version_4_are_read_still),
        cmocka_unit_test(the_bytes_of_version_5_are_read_still),
        cmocka_unit_test(the_bytes_of_version_6_are_read_still),
        cmocka_unit_test(the_bytes_of_version_7_are_read_still),
        cmocka_unit_test(the_bytes_of_version_8_stay),
        cmocka_unit_test(a_record_cut_short_anywhere_is_corrupt),
        cmocka_unit_test(what_nobody_wrote_is_refused),
        cmocka_unit_test(keys_are_in_the_order_of_their_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
