/* SPDX-License-Identifier: Apache-2.0 */

/* A root directory of the time before there was a log of our own: what was committed last is in
 * RocksDB's. Nobody but RocksDB reads that. Its recovery ends at the first damage and says nothing;
 * after a crash that is right, for the batch that was being written had not been acknowledged. But
 * what others follow had been. So RocksDB is asked before anything is changed: whether it sees
 * damage other than an incomplete end, how far recovery reaches, and whether that has a hole. */

#include "base/log.h"
#include "store/rocks_error.h"
#include "store/rocks_internal.h"
#include "store/rocks_manifest.h"
#include "store/wal.h"

/* Without checks a damaged table is not in the way: those are looked at when it is opened for good.
 * But then damage in the middle of the log isn't either. */
static rocksdb_t *open_to_ask(const struct rocks *r, int recovery, bool checked, char **text)
{
    rocksdb_options_t *o = rocksdb_options_create_copy(r->options);
    rocksdb_options_set_create_if_missing(o, 0);
    rocksdb_options_set_paranoid_checks(o, checked);
    rocksdb_options_set_wal_recovery_mode(o, recovery);
    rocksdb_t *db = rocksdb_open_for_read_only(o, r->dir, 0, text);
    rocksdb_options_destroy(o);
    return db;
}

/* Whether the log has every write after `from`, up to the last one: its recovery does not see that
 * some of it is zeros. */
static bool has_all(rocksdb_t *db, uint64_t from)
{
    char *text = NULL;
    uint64_t last = rocksdb_get_latest_sequence_number(db), next = from + 1;
    rocksdb_wal_iterator_t *it =
        next <= last ? rocksdb_get_updates_since(db, next, NULL, &text) : NULL;
    rocksdb_free(text); /* then there is something that it does not find */
    for (bool more = it != NULL; more && rocksdb_wal_iter_valid(it); rocksdb_wal_iter_next(it)) {
        uint64_t at;
        rocksdb_writebatch_t *b = rocksdb_wal_iter_get_batch(it, &at);
        uint64_t end = at + (uint64_t)rocksdb_writebatch_count(b);
        rocksdb_writebatch_destroy(b);
        more = at <= next;
        if (more && end > next)
            next = end;
    }
    if (it)
        rocksdb_wal_iter_destroy(it);
    return next > last;
}

/* How far that recovery reaches, and whether all of it is there. */
NODISCARD static struct err ask(struct rocks *r, int recovery, uint64_t from, uint64_t *last,
                                bool *whole)
{
    char *text = NULL;
    rocksdb_t *db = open_to_ask(r, recovery, true, &text);
    if (text && rocks_error_table(text)) {
        rocksdb_free(text);
        text = NULL;
        db = open_to_ask(r, recovery, false, &text);
    }
    TRY(rocks_err(r, text, ERR_IO));
    *last = rocksdb_get_latest_sequence_number(db);
    *whole = has_all(db, from);
    rocksdb_close(db);
    return err_none();
}

/* The stricter recovery refuses damage with something behind it, unless that is in another file. */
NODISCARD static struct err look(struct rocks *r, uint64_t from, uint64_t sequence, bool *whole)
{
    uint64_t reached, beyond;
    bool ignored;
    struct err e =
        ask(r, rocksdb_tolerate_corrupted_tail_records_recovery, from, &beyond, &ignored);
    if (e.code == ERR_CORRUPT)
        *whole = false;
    if (e.code != ERR_OK)
        return e.code == ERR_CORRUPT ? err_none() : e;
    TRY(ask(r, rocksdb_point_in_time_recovery, from, &reached, whole));
    *whole = *whole && reached >= beyond && reached >= sequence;
    return err_none();
}

NODISCARD static struct err refuse(const struct rocks *r, bool lossy)
{
    if (!lossy)
        return err_make(
            ERR_CORRUPT,
            "the log in %.150s is damaged: what was acknowledged after the damage would "
            "be lost; restore a backup, or start once with --commit-mode buffered, which "
            "continues with what comes before it",
            r->dir);
    log_warn("the log in %s is damaged, and what was committed after the damage is lost", r->dir);
    return err_none();
}

struct err rocks_upgrade_check(struct rocks *r, uint64_t sequence, bool lossy)
{
    struct rocks_manifest m;
    bool any, whole;
    TRY(rocks_manifest_find(r->dir, &m));
    TRY(rocks_manifest_read(r->dir, &m));
    TRY(wal_any(r->dir, &any));
    whole = m.sequence >= sequence;
    if (m.number && any)
        TRY(look(r, m.sequence, sequence, &whole));
    return whole ? err_none() : refuse(r, lossy);
}
