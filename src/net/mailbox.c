/* SPDX-License-Identifier: Apache-2.0 */
#include "net/mailbox.h"

#include "base/must.h"

/* A larger buffer is not kept when it is empty. */
#define KEEP_MAX ((size_t)1024 * 1024)

static void swap(struct buf *a, struct buf *b)
{
    struct buf was = *a;
    *a = *b;
    *b = was;
}

void mailbox_init(struct mailbox *m, uv_async_t *wake)
{
    *m = (struct mailbox){.wake = wake};
    must(pthread_mutex_init(&m->lock, NULL) == 0);
}

void mailbox_fini(struct mailbox *m)
{
    buf_fini(&m->filling);
    buf_fini(&m->posted);
    pthread_mutex_destroy(&m->lock);
}

void mailbox_post(struct mailbox *m)
{
    if (!m->filling.len)
        return;
    pthread_mutex_lock(&m->lock);
    bool first = m->posted.len == 0;
    if (first)
        swap(&m->filling, &m->posted);
    else
        buf_add(&m->posted, m->filling.at, m->filling.len);
    pthread_mutex_unlock(&m->lock);
    m->filling.len = 0;
    if (m->filling.cap > KEEP_MAX)
        buf_fini(&m->filling);
    if (first)
        uv_async_send(m->wake);
}

bool mailbox_take(struct mailbox *m, struct buf *into)
{
    must(into->len == 0);
    if (into->cap > KEEP_MAX)
        buf_fini(into);
    pthread_mutex_lock(&m->lock);
    swap(into, &m->posted);
    pthread_mutex_unlock(&m->lock);
    return into->len > 0;
}
