/* SPDX-License-Identifier: Apache-2.0 */
#include "store/log_ring.h"

#include <errno.h>
#include <liburing.h>
#include <limits.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"

struct log_ring {
    struct io_uring ring;
    unsigned under_way;
    bool failed; /* what it would not begin is still in its queue */
};

struct log_ring *log_ring_new(unsigned most)
{
    struct log_ring *r = ALLOC(struct log_ring);
    if (io_uring_queue_init(most, &r->ring, 0) == 0)
        return r;
    free(r);
    return NULL;
}

void log_ring_free(struct log_ring *r)
{
    if (!r)
        return;
    must(r->under_way == 0);
    io_uring_queue_exit(&r->ring);
    free(r);
}

int log_ring_fd(const struct log_ring *r)
{
    return r->ring.ring_fd;
}

bool log_ring_write(struct log_ring *r, int fd, const void *bytes, size_t len, uint64_t at,
                    bool sync, unsigned tag)
{
    struct io_uring_sqe *e = len <= INT_MAX && !r->failed ? io_uring_get_sqe(&r->ring) : NULL;
    if (!e)
        return false;
    io_uring_prep_write(e, fd, bytes, (unsigned)len, at);
    e->rw_flags = sync ? RWF_DSYNC : 0;
    e->user_data = tag;
    int n;
    while ((n = io_uring_submit(&r->ring)) == -EINTR)
        ;
    r->failed = n != 1;
    r->under_way += n == 1;
    return n == 1;
}

bool log_ring_next(struct log_ring *r, bool wait, unsigned *tag, int *result)
{
    struct io_uring_cqe *e;
    int n;
    must(!wait || r->under_way > 0);
    if (r->under_way == 0)
        return false;
    while ((n = wait ? io_uring_wait_cqe(&r->ring, &e) : io_uring_peek_cqe(&r->ring, &e)) == -EINTR)
        ;
    must(n == 0 || (n == -EAGAIN && !wait));
    if (n != 0)
        return false;
    *tag = (unsigned)e->user_data;
    *result = e->res;
    io_uring_cqe_seen(&r->ring, e);
    r->under_way--;
    return true;
}
