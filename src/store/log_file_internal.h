/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_LOG_FILE_INTERNAL_H
#define STORE_LOG_FILE_INTERNAL_H

/* Shared by the files of the log in files. */

#include <pthread.h>

#include "store/log_file.h"
#include "store/log_recover.h"

/* Segments that are kept to be used again. */
#define LOG_SPARES_MAX 2
/* Removed ones that wait to be freed; few, as each is an open file. More are freed at once. */
#define LOG_LEAVING_MAX 2

enum slot_state { SLOT_IDLE, SLOT_QUEUED, SLOT_WRITING, SLOT_DONE };

/* A batch under way. */
struct slot {
    enum slot_state state;
    unsigned char *bytes; /* its frame */
    size_t cap, len;
    const struct log_segment *segment;
    uint64_t at, number;
    bool sync;
    struct err result;
};

struct log_file {
    struct log base;
    struct log_file_settings settings; /* dir is a copy */
    char *dir;
    struct log_recovery found; /* until the first append, for the replay */
    bool read_only;

    pthread_mutex_t lock;      /* of all that follows */
    pthread_cond_t work, done; /* for a writer; for whoever waits for what others do */
    pthread_cond_t to_maker;
    pthread_t threads[LOG_UNDER_WAY_MAX], maker;
    unsigned thread_count;
    bool has_maker, making, stopping;
    pthread_t rester;
    pthread_cond_t to_rester;
    bool has_rester, rester_sleeps;
    bool appending, resting; /* somebody changes the place of the next frame, or writes there */
    bool hurry;              /* somebody waits for what the maker makes */
    _Atomic bool needed;     /* the maker, for something else than the next two */
    int leaving[LOG_LEAVING_MAX]; /* descriptors of files that were removed, for it to free */
    size_t leaving_count;
    struct log_segment **list; /* all, in use and free */
    size_t count;
    uint64_t names; /* the highest that was ever given to a file here */
    struct log_segment *current;
    uint64_t at;                          /* of the next frame in it */
    uint64_t generation, newest;          /* of the log, and the highest anywhere */
    bool dirty;                           /* current has batches that were not synced */
    uint64_t appended, durable, synced;   /* the numbers last given, and reached */
    uint64_t rested;                      /* the disk is known to say that this one is durable */
    struct slot slots[LOG_UNDER_WAY_MAX]; /* batch n in n % LOG_UNDER_WAY_MAX */
    struct err failed;                    /* once this is an error, nothing becomes durable */
    uint64_t wanted;                      /* bytes of the segment that the maker is to make; 0 */
};

/* log_file_rooms.c: where appends go. Called with the lock held, which they let go of and take
 * again. */
/* Whether the current segment has room for a frame of that size and the seal after it. */
bool log_file_has_room(const struct log_file *f, size_t size);
/* Makes room for a frame of that size and the seal after it; nothing may be under way when it needs
 * another segment: first calls drain(f). ERR_DISK_FULL, and then nothing has changed; or sets
 * f->failed. */
NODISCARD struct err log_file_make_room(struct log_file *f, size_t size);
/* Syncs the batches that were not, when nothing is under way. Or sets f->failed. */
NODISCARD struct err log_file_clean(struct log_file *f);
/* Begins the first segment, or continues the one found. The same errors. */
NODISCARD struct err log_file_begin(struct log_file *f);
/* Frees segments whose batches are all up to that number. */
void log_file_let_go(struct log_file *f, uint64_t number);
/* What a frame written now says of the batches before it. */
void log_file_say(const struct log_file *f, struct log_frame *frame);
/* The thread that makes spare segments, and frees what is removed. */
void *log_file_maker(void *f);

/* log_file_rest.c */
/* The thread that notes idleness, and what every append tells it. */
void *log_file_rester(void *f);
void log_file_stir(struct log_file *f);
/* Until nothing is written where the next frame comes. */
void log_file_await_rest(struct log_file *f);
/* log_file_rest, with the lock held. */
void log_file_note_rest(struct log_file *f);

/* log_file.c */
/* Waits until nothing is under way, or the log has failed and nobody writes any more. */
void log_file_drain(struct log_file *f);

#endif
