/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/journal.h"

struct fixture {
    uv_loop_t loop;
    char dir[64], file[96];
    struct journal *journal;
    int changes;
    bool lean;
};

static void changed(void *ctx)
{
    ((struct fixture *)ctx)->changes++;
}

static struct err open_it(struct fixture *f)
{
    return (f->lean ? journal_open_lean : journal_open)(&f->loop, f->dir, changed, f, &f->journal);
}

static void begin_as(struct fixture *f, bool lean)
{
    *f = (struct fixture){.lean = lean};
    strcpy(f->dir, "/tmp/tenax-journal-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    strcat(f->dir, "/a/b");
    snprintf(f->file, sizeof f->file, "%s/journal", f->dir);
    assert_int_equal(uv_loop_init(&f->loop), 0);
    assert_int_equal(open_it(f).code, ERR_OK);
}

static void begin(struct fixture *f)
{
    begin_as(f, false);
}

static void close_it(struct fixture *f)
{
    journal_close(f->journal);
    uv_run(&f->loop, UV_RUN_DEFAULT);
}

static void reopen(struct fixture *f)
{
    close_it(f);
    assert_int_equal(open_it(f).code, ERR_OK);
}

static void end(struct fixture *f)
{
    char command[128];
    close_it(f);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    f->dir[strlen(f->dir) - strlen("/a/b")] = '\0';
    snprintf(command, sizeof command, "rm -r %s", f->dir);
    assert_int_equal(system(command), 0);
}

static void assert_records(struct fixture *f, const char *wanted)
{
    struct buf b = {0};
    LIST_EACH (n, journal_records(f->journal)) {
        const struct journal_record *r = LIST_OF(n, struct journal_record, node);
        assert_true(r->kept);
        buf_str(&b, journal_text(r));
    }
    buf_byte(&b, '\0');
    assert_string_equal(b.at, wanted);
    buf_fini(&b);
}

static void a_record_is_kept_once_it_is_synced(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    struct journal_record *a = journal_add(f.journal, STR("{\"a\":1}"));
    struct journal_record *b = journal_add(f.journal, STR("2"));
    assert_false(a->kept);
    uv_run(&f.loop, UV_RUN_DEFAULT);
    assert_true(a->kept);
    assert_true(b->kept);
    assert_true(f.changes >= 1);
    reopen(&f);
    assert_records(&f, "{\"a\":1}2");
    end(&f);
}

static void what_is_removed_stays_away(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    struct journal_record *a = journal_add(f.journal, STR("1"));
    journal_add(f.journal, STR("2"));
    journal_remove(f.journal, a);
    reopen(&f);
    assert_records(&f, "2");
    /* Numbers of records that are gone are not used again. */
    journal_remove(f.journal,
                   LIST_OF(journal_records(f.journal)->next, struct journal_record, node));
    journal_add(f.journal, STR("3"));
    reopen(&f);
    assert_records(&f, "3");
    end(&f);
}

/* The oldest stay, so that a search from the front would pass them each time. */
static void many_records_that_come_and_go_are_read_quickly(void **state)
{
    (void)state;
    struct fixture f;
    struct journal_record *young[20000];
    struct buf all = {0};
    begin(&f);
    for (int i = 0; i < 20000; i++)
        journal_add(f.journal, STR("1"));
    for (int i = 0; i < 20000; i++)
        young[i] = journal_add(f.journal, STR("2"));
    uv_run(&f.loop, UV_RUN_DEFAULT);
    for (int i = 0; i < 20000; i++) {
        buf_byte(&all, '1');
        journal_remove(f.journal, young[(i * 7919) % 20000]);
    }
    buf_byte(&all, '\0');
    reopen(&f);
    assert_records(&f, all.at);
    buf_fini(&all);
    end(&f);
}

static void a_second_process_is_refused(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    struct journal *other;
    assert_int_equal(journal_open(&f.loop, f.dir, changed, &f, &other).code, ERR_LOCKED);
    end(&f);
}

static struct buf file_of(const struct fixture *f)
{
    struct buf b = {0};
    int fd = open(f->file, O_RDONLY);
    assert_true(fd >= 0);
    ssize_t n;
    while ((n = read(fd, buf_room(&b, 4096), 4096)) > 0)
        b.len += (size_t)n;
    close(fd);
    return b;
}

static void write_file(const struct fixture *f, struct str text)
{
    int fd = open(f->file, O_WRONLY | O_TRUNC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text.at, text.len), text.len);
    close(fd);
}

static void a_file_that_was_cut_off_anywhere_keeps_what_is_whole(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    journal_add(f.journal, STR("\"first\""));
    uv_run(&f.loop, UV_RUN_DEFAULT);
    struct buf before = file_of(&f);
    size_t first = before.len;
    buf_fini(&before);
    journal_add(f.journal, STR("\"second\""));
    uv_run(&f.loop, UV_RUN_DEFAULT);
    struct buf whole = file_of(&f);
    for (size_t n = first; n <= whole.len; n++) {
        close_it(&f);
        write_file(&f, (struct str){whole.at, n});
        assert_int_equal(open_it(&f).code, ERR_OK);
        assert_records(&f, n < whole.len ? "\"first\"" : "\"first\"\"second\"");
        /* What comes next stands by itself. */
        journal_add(f.journal, STR("3"));
        reopen(&f);
        assert_records(&f, n < whole.len ? "\"first\"3" : "\"first\"\"second\"3");
    }
    buf_fini(&whole);
    end(&f);
}

static void a_damaged_line_is_passed_over(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    journal_add(f.journal, STR("1"));
    journal_add(f.journal, STR("2"));
    uv_run(&f.loop, UV_RUN_DEFAULT);
    close_it(&f);
    struct buf b = file_of(&f);
    for (size_t i = 0; i < b.len; i++) {
        if (b.at[i] == '\n')
            continue;
        b.at[i] ^= 1;
        write_file(&f, buf_view(&b));
        b.at[i] ^= 1;
        assert_int_equal(open_it(&f).code, ERR_OK);
        assert_records(&f, i < b.len / 2 ? "2" : "1");
        close_it(&f);
    }
    write_file(&f, buf_view(&b));
    buf_fini(&b);
    assert_int_equal(open_it(&f).code, ERR_OK);
    end(&f);
}

static void the_file_does_not_grow_for_ever(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    char big[4096];
    memset(big, '7', sizeof big);
    journal_add(f.journal, STR("\"stays\""));
    for (int i = 0; i < 3000; i++) {
        struct journal_record *r = journal_add(f.journal, (struct str){big, sizeof big});
        if (i % 100 == 0)
            uv_run(&f.loop, UV_RUN_DEFAULT);
        journal_remove(f.journal, r);
    }
    uv_run(&f.loop, UV_RUN_DEFAULT);
    struct stat st;
    assert_int_equal(stat(f.file, &st), 0);
    assert_true(st.st_size < 3 << 20);
    reopen(&f);
    assert_records(&f, "\"stays\"");
    end(&f);
}

/* The n-th text, of some length. */
static struct str nth(unsigned n, char *to)
{
    int head = snprintf(to, 32, "\"%u-", n);
    size_t len = (size_t)head + n * 7919 % 3000;
    memset(to + head, 'a' + (int)(n % 26), len - (size_t)head);
    to[len++] = '"';
    return (struct str){to, len};
}

/* Each record reads back as what it was, and has its text in memory only until it is kept. */
static size_t check_all(struct fixture *f)
{
    static char text[4096];
    size_t count = 0;
    LIST_EACH (n, journal_records(f->journal)) {
        const struct journal_record *r = LIST_OF(n, struct journal_record, node);
        struct buf b = {0};
        journal_fetch(f->journal, r, &b);
        struct str wanted = nth((unsigned)strtoul(b.at + 1, NULL, 10), text);
        assert_int_equal(b.len, wanted.len);
        assert_memory_equal(b.at, wanted.at, b.len);
        assert_int_equal(r->text == NULL, r->kept && f->lean);
        buf_fini(&b);
        count++;
    }
    return count;
}

static struct journal_record *first(struct fixture *f)
{
    return LIST_OF(journal_records(f->journal)->next, struct journal_record, node);
}

/* Over batches, new files and restarts: 6 MB come, and most of it goes. */
static void a_lean_one_has_its_texts_on_disk(void **state)
{
    (void)state;
    static char text[4096];
    for (int lean = 0; lean < 2; lean++) {
        struct fixture f;
        size_t live = 0;
        begin_as(&f, lean);
        for (unsigned n = 0; n < 4000; n++, live++) {
            journal_add(f.journal, nth(n, text));
            if (n % 5)
                uv_run(&f.loop, UV_RUN_NOWAIT);
            for (; live > 50 && n % 3 == 0; live--)
                journal_remove(f.journal, first(&f));
            if (n % 61 == 0)
                assert_int_equal(check_all(&f), live + 1);
            if (n % 977 == 0)
                reopen(&f);
        }
        struct stat st;
        assert_int_equal(stat(f.file, &st), 0);
        assert_true(st.st_size < 3 << 20);
        reopen(&f);
        assert_int_equal(check_all(&f), live);
        end(&f);
    }
}

static void limit_files(rlim_t bytes)
{
    struct rlimit l;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &l), 0);
    l.rlim_cur = bytes < l.rlim_max ? bytes : l.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &l), 0);
}

/* What a batch that failed has is written before what came in meanwhile. */
static void a_lean_one_knows_where_its_texts_are_after_a_full_disk(void **state)
{
    (void)state;
    static char text[4096];
    struct fixture f;
    begin_as(&f, true);
    signal(SIGXFSZ, SIG_IGN);
    for (unsigned n = 0; n < 10; n++)
        journal_add(f.journal, nth(n, text));
    uv_run(&f.loop, UV_RUN_DEFAULT);
    struct stat st;
    assert_int_equal(stat(f.file, &st), 0);
    limit_files((rlim_t)st.st_size + 10);
    journal_remove(f.journal, first(&f)); /* a batch of this alone */
    for (unsigned n = 10; n < 20; n++)
        journal_add(f.journal, nth(n, text));
    for (int i = 0; i < 3; i++) /* the batch, and a try or two */
        uv_run(&f.loop, UV_RUN_ONCE);
    for (unsigned n = 20; n < 30; n++)
        journal_add(f.journal, nth(n, text));
    assert_int_equal(check_all(&f), 29);
    assert_false(LIST_OF(journal_records(f.journal)->prev, struct journal_record, node)->kept);
    limit_files(RLIM_INFINITY);
    uv_run(&f.loop, UV_RUN_DEFAULT);
    assert_true(LIST_OF(journal_records(f.journal)->prev, struct journal_record, node)->kept);
    assert_int_equal(check_all(&f), 29);
    reopen(&f);
    assert_int_equal(check_all(&f), 29);
    end(&f);
}

static void a_directory_that_cannot_be_made_is_named(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    struct journal *other;
    struct err e = journal_open(&f.loop, "/proc/nothing/here", changed, &f, &other);
    assert_int_equal(e.code, ERR_IO);
    assert_non_null(strstr(e.msg, "/proc/nothing"));
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_is_kept_once_it_is_synced),
        cmocka_unit_test(what_is_removed_stays_away),
        cmocka_unit_test(many_records_that_come_and_go_are_read_quickly),
        cmocka_unit_test(a_second_process_is_refused),
        cmocka_unit_test(a_file_that_was_cut_off_anywhere_keeps_what_is_whole),
        cmocka_unit_test(a_damaged_line_is_passed_over),
        cmocka_unit_test(the_file_does_not_grow_for_ever),
        cmocka_unit_test(a_lean_one_has_its_texts_on_disk),
        cmocka_unit_test(a_lean_one_knows_where_its_texts_are_after_a_full_disk),
        cmocka_unit_test(a_directory_that_cannot_be_made_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
