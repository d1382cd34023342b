/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_ROCKS_INTERNAL_H
#define STORE_ROCKS_INTERNAL_H

/* Shared by the files of the store on RocksDB. */

#include <pthread.h>
#include <rocksdb/c.h>
#include <stdatomic.h>

#include "store/batch.h"
#include "store/inventory.h"
#include "store/log.h"
#include "store/log_ring.h"
#include "store/rocks.h"
#include "store/rocks_pace.h"
#include "store/shed.h"
#include "store/writer.h"

#define MIB ((uint64_t)1024 * 1024)

/* Room on the disk that commits leave alone, in addition to what is in memory and not yet in
 * tables: RocksDB must be able to write that out, or it could not even be reopened. After a refusal
 * a little more is required, so that not every second commit fails. */
#define SPARE_ROOM  ((int64_t)(4 * MIB))
#define REOPEN_ROOM ((int64_t)(8 * MIB))
/* To mend a table it is written anew, by way of a log. */
#define MEND_ROOM ((int64_t)(8 * MIB))

/* The memory of a larger batch is freed when it is done. */
#define ROCKS_KEEP_MAX ((size_t)32 * 1024 * 1024)

enum phase {
    IDLE,
    LOGGING,   /* the loop has given a batch to the log, which writes it */
    LOGGED,    /* the log has it; the loop will bring it to the tables */
    UNDER_WAY, /* a batch waits for the thread or is being written by it */
    ENDED,     /* result waits for store_reap */
};

struct rocks {
    struct store base;
    char *dir;
    bool lossy, unsynced;
    void (*notify)(void *ctx);
    void *ctx;

    rocksdb_cache_t *cache;
    rocksdb_options_t *options;
    struct rocks_pace *pace; /* of compactions */
    rocksdb_readoptions_t *reading;
    rocksdb_readoptions_t *flushed;           /* sees only what is in tables */
    rocksdb_writeoptions_t *unlogged;         /* RocksDB has no log of its own */
    rocksdb_writeoptions_t *unlogged_at_once; /* and refuses rather than wait */
    struct shed *shed;                        /* of db: frees what it removes */
    size_t shed_max;
    rocksdb_t *db;    /* changes only while phase is not UNDER_WAY; NULL: nothing to read */
    unsigned cursors; /* open cursors; they must not outlive db */

    pthread_t thread;
    pthread_mutex_t lock; /* of phase to closing, of in_log, and of hurt */
    pthread_cond_t to_thread, to_loop, unused;
    enum phase phase;
    bool announced; /* the batch, which the tables lack, was said to be durable */
    uint64_t ended; /* so many batches, since the opening */
    bool stopping;
    unsigned snapshots; /* in progress; db must not be closed meanwhile */
    bool closing;       /* no further snapshot may begin */
    bool compact_stopped;
    /* The thread's while UNDER_WAY, otherwise the loop's. */
    bool broken;     /* a commit failed, or there was no room for opening; reopen is due */
    bool refused;    /* and RocksDB got nothing of the commit, so that its handle can be kept */
    struct log *log; /* NULL: nothing can be committed */
    struct log_ring *ring; /* NULL: every commit is for the thread */
    struct buf bytes;      /* of the batch under way */
    /* Where RocksDB may not write: what the log has and tables do not. NULL: that is in RocksDB. */
    rocksdb_writebatch_wi_t *overlay;
    uint64_t overlaid;          /* bytes in it */
    uint64_t log_bytes, logged; /* written to the log before the next flush: at most; by now */
    _Atomic uint64_t held;      /* the log keeps batches after it */
    uint64_t held_noted;        /* as the inventory says */
    bool held_known;            /* by a call, or from the inventory */
    int64_t room, room_at_ns;   /* see rocks_recent_space */
    uint64_t committed,
        number;               /* the last batch: of the thread, and of the loop, which reaped it */
    _Atomic uint64_t pending; /* bytes of the batch that is on its way to the log */
    bool has_log;             /* the root directory had one before this opening */
    uint64_t tables;          /* they hold batches up to this one, at least */
    uint64_t reached;         /* the last batch that is known to be on the disk */
    const struct batch *batch;
    bool sync, in_log; /* in_log: of that batch only the tables are left */
    uint64_t logging;  /* its number while LOGGING */
    struct err result;
    struct inventory_writer *inventory; /* NULL: it could not be created yet */
    unsigned unnoted, note_interval;    /* commits since it was written */
    uint64_t noted_version;             /* of RocksDB's tables */
    bool note_failed;                   /* and this was logged */
    bool damaged;                       /* a table could not be read */
    uint64_t hurt;                      /* such a table, still to be mended; 0: none. Under lock */
    struct err failure;                 /* iff broken, unless by a commit */
    rocksdb_writebatch_t *writes;       /* used only by the thread */
    struct foreign *foreign;            /* NULL: the log is in dir */
};

static inline struct rocks *rocks_of(struct store *s)
{
    return (struct rocks *)s;
}

/* rocks_foreign.c: where r->foreign is not NULL */
struct foreign *rocks_foreign_new(const struct rocks_settings *settings);
void rocks_foreign_free(struct foreign *f);
/* Opens the copy, made anew if need be, and the log. See store/rocks_foreign.h. */
NODISCARD struct err rocks_foreign_open(struct rocks *r);
/* Before the database is closed; it may be called again. */
void rocks_foreign_stop(struct rocks *r);
/* Adds to the record of that number of a batch what it is a number of. */
void rocks_foreign_mark(const struct rocks *r, uint64_t number, struct writer *w);
/* The tables have come to r->committed. */
void rocks_foreign_note(struct rocks *r);
/* What became of a batch that PostgreSQL was sent. */
void rocks_foreign_judge(struct rocks *r, const struct err *logged);
/* The opening gets on. */
void rocks_foreign_works(const struct rocks *r);

/* rocks.c */
/* Opens the database in r->dir. With r->hurt, a damaged table. */
NODISCARD struct err rocks_open_db(struct rocks *r);

/* rocks_upgrade.c */
/* Whether RocksDB's log, of a root directory that has none of ours, has all that was acknowledged;
 * `sequence` is known to have been. Changes nothing. ERR_CORRUPT, unless with `lossy`, which gives
 * up what comes after damage, and says so in the log; ERR_IO, ERR_VERSION. */
NODISCARD struct err rocks_upgrade_check(struct rocks *r, uint64_t sequence, bool lossy);

/* rocks_handle.c */
/* The handle with all that belongs to it, except the database. rocks_free frees it, and closes the
 * database as well. */
struct rocks *rocks_new(const struct rocks_settings *settings);
void rocks_free(struct rocks *r);
void rocks_set_compression(rocksdb_options_t *o, bool lz4);
void rocks_close_db(struct rocks *r);
/* Checks what is there against the inventory, which r then knows. The errors of inventory_check. */
NODISCARD struct err rocks_check_inventory(struct rocks *r, bool lossy);
/* Converts RocksDB's error, if there is one, to ours, and frees it. */
NODISCARD struct err rocks_err(struct rocks *r, char *text, enum err_code otherwise);
/* The same for reads of tables: a damaged table is mended when the store is next opened. */
NODISCARD struct err rocks_err_of_tables(struct rocks *r, char *text, enum err_code otherwise);
bool rocks_says(const char *text, const char *part);

/* rocks_commit.c: functions of struct store_vt, and the thread */
void rocks_commit(struct store *s, const struct batch *b, bool sync);
bool rocks_is_durable(struct store *s);
bool rocks_reap(struct store *s, struct err *result);
void rocks_wait(struct store *s);
int rocks_wake_fd(const struct store *s);
void *rocks_commit_thread(void *r);
/* Until no batch is on its way. */
void rocks_await_end(struct rocks *r);
/* Until the tables have what was said to be durable. For the loop. */
void rocks_catch_up(struct rocks *r);
/* The same on another thread, for what was said before the call. */
void rocks_await_tables(struct rocks *r);
/* Moves to tables what is in memory: the log need not keep it then, and what it deletes goes. */
NODISCARD struct err rocks_make_room(struct rocks *r);

/* rocks_apply.c */
/* A batch that the log has, `len` bytes there, comes to the tables. ERR_STORE, ERR_DISK_FULL; with
 * r->hurt, a damaged table. */
NODISCARD struct err rocks_apply(struct rocks *r, const struct batch *b, uint64_t number,
                                 size_t len);
/* The same, but false if the tables want the writer to wait: nothing has happened then. */
NODISCARD bool rocks_try_apply(struct rocks *r, const struct batch *b, uint64_t number, size_t len,
                               struct err *result);

/* rocks_flush.c */
/* Writes everything in memory to tables. ERR_DISK_FULL as well if merges are too far behind. */
NODISCARD struct err rocks_flush(struct rocks *r);
/* The same if they are not, or if there are none; without `wait` it is only begun. */
NODISCARD struct err rocks_flush_anyway(struct rocks *r, bool wait);
bool rocks_may_flush(struct rocks *r);
/* As rocks_flush; on any thread. */
NODISCARD struct err rocks_flush_elsewhere(struct rocks *r, bool wait);
/* Until merges have caught up. ERR_DISK_FULL if they make no progress for half a minute and fail or
 * rest; ERR_STORE: the store is to be closed. On a thread that may block. */
NODISCARD struct err rocks_await_merges(struct rocks *r);

/* rocks_note.c */
/* Records what must be there at the next start. ERR_DISK_FULL, ERR_IO. */
NODISCARD struct err rocks_write_inventory(struct rocks *r);
/* The same, where a failure is only logged: false. */
bool rocks_note_files(struct rocks *r);
/* Brings the inventory up to date, and has the log let go of what it need not keep. */
void rocks_note(struct rocks *r);
/* After each commit by the thread: does so when it is due. */
void rocks_note_commit(struct rocks *r);
/* Whether it would be due after one more commit. */
bool rocks_note_is_due(struct rocks *r);
/* The log lets go of what neither tables lack nor anybody holds. */
void rocks_let_go(struct rocks *r);
/* Changes whenever RocksDB's tables change. */
uint64_t rocks_version(struct rocks *r);

/* rocks_read.c: functions of struct store_vt */
struct err rocks_get(struct store *s, struct str key, bool *found, struct buf *value);
struct store_cursor *rocks_cursor_new(struct store *s);
void rocks_cursor_seek(struct store_cursor *c, struct str key, bool backwards);
bool rocks_cursor_at(const struct store_cursor *c, struct str *key, struct str *value);
void rocks_cursor_step(struct store_cursor *c, bool backwards);
struct err rocks_cursor_free(struct store_cursor *c);

/* rocks_number.c: which batch the tables have come to */
/* Adds the record of it to r->writes. */
void rocks_number_put(struct rocks *r, uint64_t number);
/* The last batch that is there by those options; 0 and *found false in a root directory of an older
 * tenax, or a new one. */
NODISCARD struct err rocks_number_get(struct rocks *r, const rocksdb_readoptions_t *how,
                                      bool *found, uint64_t *number);
/* Whether the key is that of the record, which nobody outside of the store sees. */
bool rocks_number_is(struct str key);
/* Applies what the log has from that batch on. */
NODISCARD struct err rocks_log_apply(struct rocks *r, uint64_t from);
/* Opens the log and applies what tables do not hold. If a table is damaged, r->hurt is set; with
 * `mending` that does not matter. */
NODISCARD struct err rocks_log_open(struct rocks *r, bool mending);
/* The same where nothing may be written: into r->overlay. */
NODISCARD struct err rocks_log_overlay(struct rocks *r);
/* A function of struct store_vt. */
struct err rocks_log_replay(struct store *s, uint64_t from, store_replay_fn fn, void *ctx);
/* Brings r->tables up to date. */
void rocks_log_look(struct rocks *r);
void rocks_log_close(struct rocks *r);
/* A batch of that size was written. A small one takes a block of the log and little memory: without
 * a flush the log would grow to many times what RocksDB keeps in memory. */
NODISCARD struct err rocks_log_count(struct rocks *r, size_t bytes);
/* Whether that would begin a flush. */
bool rocks_log_is_full(struct rocks *r, size_t bytes);

/* rocks_room.c */
/* ERR_DISK_FULL unless the disk has `need` bytes beyond what is in memory. */
NODISCARD struct err rocks_check_room(const struct rocks *r, int64_t need);
/* The same for a commit, by rocks_recent_space where that is ample. For whoever commits. */
NODISCARD struct err rocks_check_room_to_commit(struct rocks *r, int64_t need);
/* The room that the disk has, or had a moment ago if that was much. Likewise. */
int64_t rocks_recent_space(struct rocks *r);
/* Whether the log may take so many bytes of the disk: ERR_DISK_FULL unless there is room for what
 * is in memory, and for the batch that is to come there, as well. ctx is the store. On any thread,
 * as long as the log is open. */
NODISCARD struct err rocks_may_grow(void *ctx, uint64_t bytes);
/* Whether there is enough to set r->hurt apart: ERR_DISK_FULL names it. */
NODISCARD struct err rocks_check_room_to_mend(const struct rocks *r);
/* Functions of struct store_vt. */
int64_t rocks_free_space(struct store *s);
uint64_t rocks_disk_bytes(struct store *s);

/* rocks_snapshot.c: functions of struct store_vt, called on other threads */
struct err rocks_snapshot(struct store *s, const char *dir);
struct err rocks_compact(struct store *s);
void rocks_compact_stop(struct store *s);

#endif
