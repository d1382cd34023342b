/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

/* Intrusive doubly linked list. A node that is in no list points to itself. */

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *prev, *next;
};

static inline void list_init(struct list *l)
{
    l->prev = l->next = l;
}

static inline bool list_is_empty(const struct list *l)
{
    return l->next == l;
}

static inline void list_append(struct list *l, struct list *node)
{
    node->prev = l->prev;
    node->next = l;
    l->prev->next = node;
    l->prev = node;
}

/* Takes the node out of whatever list it is in; harmless if it is in none. */
static inline void list_unlink(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

/* Each node of the list, from the first. The body must not take out the node that it is given. */
#define LIST_EACH(node, head)                                                                      \
    for (struct list *node = (head)->next; node != (head); node = node->next)

/* The struct that holds the node as the named member. */
#define LIST_OF(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

#endif
