/* SPDX-License-Identifier: Apache-2.0 */

/* What workers leave with their jobs. It lies in the store beside the job, never in memory: a job
 * in flight only knows which of it there is. */

#include <stdlib.h>

#include "base/must.h"
#include "core/engine_internal.h"
#include "core/job_fields.h"

static uint64_t notes_of(const struct live *l)
{
    return l->extras ? l->extras->notes : 0;
}

static void set_notes(struct live *l, uint64_t notes)
{
    struct job_extras changed = {0};
    if (l->extras)
        changed = *l->extras;
    changed.notes = notes;
    struct job_extras *extras = job_extras_new(&changed);
    free(l->extras);
    l->extras = extras;
}

void engine_note_drop(struct engine *e, struct live *l, enum note_kind kind)
{
    if (!(notes_of(l) & NOTE_BIT(kind)))
        return;
    e->port.delete_note(e->port.ctx, l->id, kind);
    set_notes(l, notes_of(l) & ~NOTE_BIT(kind));
}

static uint64_t put(struct engine *e, const struct live *l, enum note_kind kind,
                    const struct note *note)
{
    e->port.put_note(e->port.ctx, l->id, kind, note);
    return NOTE_BIT(kind);
}

struct err engine_note(struct engine *e, instant now, struct run_ref ref, const struct news *news)
{
    struct live *l = NULL;
    TRY(engine_find_run(e, now, ref, &l));
    engine_lease_confirm(e, l);
    uint64_t before = notes_of(l), notes = before;
    struct note note = {.run = l->run, .at = now};
    if (news->has_progress) {
        note.value = news->progress;
        note.text = news->progress_note;
        notes |= put(e, l, NOTE_PROGRESS, &note);
    }
    note.value = 0;
    if (news->has_checkpoint && news->checkpoint.len) {
        note.text = news->checkpoint;
        notes |= put(e, l, NOTE_CHECKPOINT, &note);
    } else if (news->has_checkpoint) {
        engine_note_drop(e, l, NOTE_CHECKPOINT);
        notes &= ~NOTE_BIT(NOTE_CHECKPOINT);
    }
    if (news->result.len) {
        note.text = news->result;
        notes |= put(e, l, NOTE_RESULT, &note);
    }
    if (news->has_progress && news->progress_event) {
        struct job_event ev = engine_live_event(e, EVENT_PROGRESS, l);
        ev.reason = news->progress_note;
        engine_changed(e, now, &ev);
    }
    if (notes == before)
        return err_none();
    /* The stored state says which notes there are, so that they go when the job goes. */
    set_notes(l, notes);
    return engine_live_store(e, l);
}

/* The status as events have told it: a job whose time has come is not ready to their consumers
 * before the event of that. */
static enum status told_status(const struct engine *e, const struct job *job)
{
    const struct job_state *s = &job->state;
    struct btree_entry key = {(uint64_t)s->ready_at.ms, job->id.hi, job->id.lo, 0}, due;
    if (s->status != STATUS_READY && s->status != STATUS_SCHEDULED)
        return s->status;
    bool waits = btree_at_least(&e->deadlines, key, &due) && due.major == key.major &&
                 due.hi == key.hi && due.lo == key.lo;
    return waits && !(due.val & DUE_VAL_ANNOUNCED) ? STATUS_SCHEDULED : STATUS_READY;
}

struct err engine_artifact(struct engine *e, instant now, struct id id, uint32_t run,
                           struct str name)
{
    struct arena scratch = {0};
    struct job job;
    struct job_extent extent;
    struct err err = engine_read(e, now, id, false, &scratch, &job, &extent);
    if (err.code == ERR_OK && run >= job.state.runs)
        err = err_make(ERR_NOT_FOUND, "the job had no run %u", run);
    if (err.code == ERR_OK) {
        struct job_event ev = engine_event(EVENT_ARTIFACT, told_status(e, &job), &job);
        ev.run = run;
        ev.artifact = name;
        engine_changed(e, now, &ev);
    }
    arena_fini(&scratch);
    return err;
}

struct err engine_read_notes(struct engine *e, const struct job *job, struct arena *a,
                             struct job_notes *out)
{
    *out = (struct job_notes){.has = job->state.extras.notes};
    for (int k = 0; k < NOTE_KINDS; k++)
        if (out->has & NOTE_BIT(k))
            TRY(e->port.load_note(e->port.ctx, job->id, (enum note_kind)k, a, &out->at[k]));
    return err_none();
}
