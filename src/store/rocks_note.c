/* SPDX-License-Identifier: Apache-2.0 */

/* What must be there at the next start, and of what the log therefore lets go. */

#include "base/log.h"
#include "store/rocks_internal.h"

/* The inventory is written after 1, 2, 4, … commits, and whenever the tables change. */
#define NOTE_INTERVAL_MAX 1024

uint64_t rocks_version(struct rocks *r)
{
    uint64_t v = 0;
    rocksdb_property_int(r->db, "rocksdb.current-super-version-number", &v);
    return v;
}

struct err rocks_write_inventory(struct rocks *r)
{
    r->unnoted = 0;
    if (!r->inventory)
        TRY(inventory_writer_new(r->dir, &r->inventory));
    struct inventory_state is = {
        .tables = r->tables, .reached = r->reached, .held = r->held, .damaged = r->damaged};
    TRY(inventory_write(r->inventory, &is));
    r->held_noted = is.held;
    return err_none();
}

/* Without it the next start would trust what it finds. */
bool rocks_note_files(struct rocks *r)
{
    struct err e = rocks_write_inventory(r);
    if (e.code != ERR_OK && !r->note_failed)
        log_warn("the inventory of what is on the disk is out of date: %s", e.msg);
    r->note_failed = e.code != ERR_OK;
    return e.code == ERR_OK;
}

void rocks_let_go(struct rocks *r)
{
    log_release(r->log, r->tables < r->held_noted ? r->tables : r->held_noted);
}

/* Only of what the inventory says is in tables: should their own record of it be damaged,
 * everything after that is still there. */
void rocks_note(struct rocks *r)
{
    if (r->foreign)
        return; /* PostgreSQL has all of it */
    r->noted_version = rocks_version(r);
    rocks_log_look(r);
    if (rocks_note_files(r))
        rocks_let_go(r);
}

bool rocks_note_is_due(struct rocks *r)
{
    return r->unnoted + 1 >= r->note_interval || r->held != r->held_noted ||
           rocks_version(r) != r->noted_version;
}

void rocks_note_commit(struct rocks *r)
{
    bool noted = rocks_note_is_due(r), due = ++r->unnoted >= r->note_interval;
    if (!noted)
        return;
    rocks_note(r);
    if (due && r->note_interval < NOTE_INTERVAL_MAX)
        r->note_interval *= 2;
}
