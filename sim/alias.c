/* SPDX-License-Identifier: Apache-2.0 */

/* Aliases: other names of jobs. ALIAS: as long as the job is kept, whatever its status, its alias
 * finds it and nobody else, and an enqueue with that alias is told of it and adds nothing. */

#include <stddef.h>

#include "sim.h"
#include "trace.h"

static const struct str names[ALIASES + 1] = {{"", 0},   {"a1", 2}, {"a2", 2}, {"a3", 2},
                                              {"a4", 2}, {"a5", 2}, {"a6", 2}, {"a7", 2}};

/* Where in a command the id is of the job that it is about. */
#define NONE                                           SIZE_MAX
#define AT(id)                                         offsetof(struct command, id)
#define NOTHING                                        0
#define ADDS                                           0
#define CHANGES                                        0
#define FREES                                          0
#define COMMAND(kind, writes, shape, subject, handler) [CMD_##kind] = subject,
static const size_t subjects[COMMAND_COUNT] = {
#include "core/commands.def"
};
#undef COMMAND

void alias_give(struct sim *s, struct enqueue *spec)
{
    if (sim_chance(s, s->profile.aliases))
        spec->options.alias = names[1 + sim_draw(s, ALIASES)];
}

void alias_use(const struct ticket *t, struct command *c)
{
    const struct mjob *m = t->count == 1 ? t->jobs[0] : NULL;
    size_t at = subjects[t->kind];
    /* Whoever asks must know that it is this one's. */
    if (!m || !m->alias || at == NONE || t->there[0] != YES || !sim_chance(t->sim, 50))
        return;
    trace_line("  by its alias a%u", m->alias);
    memset((char *)c + at, 0, sizeof(struct id));
    c->alias = names[m->alias];
}

/* --- whoever it may be --- */

static void judge(struct ticket *t, const struct reply *r)
{
    struct ledger *l = &t->sim->ledger;
    enum err_code code = r->err.code;
    if (ticket_is_in_doubt(t, code))
        return;
    PROMISE(code == ERR_OK || code == ERR_NOT_FOUND, "REPLY", "#%lu: answer %s", t->serial,
            err_wire(code));
    PROMISE(code == ERR_OK || !t->held[0], "ALIAS", "#%lu: alias a%u finds nothing", t->serial,
            t->queues);
    if (code != ERR_OK)
        return;
    const struct mjob *m = ledger_see(l, &r->jobs[0], true, t->sim->now);
    PROMISE(m->alias == t->queues, "ALIAS", "#%lu: alias a%u finds job %lu", t->serial, t->queues,
            m->serial);
    trace_line("  alias a%u is job %lu", t->queues, m->serial);
}

static struct ticket *ask(struct sim *s, unsigned alias)
{
    struct ticket *t = ticket_new(s, CMD_READ, 0);
    t->then = judge;
    t->queues = alias;
    t->held[0] = ledger_alias_holder(&s->ledger, alias, s->now) != NULL;
    return t;
}

void alias_read(struct sim *s)
{
    unsigned alias = 1 + (unsigned)sim_draw(s, ALIASES);
    struct command c = {.alias = names[alias]};
    ticket_submit(ask(s, alias), &c);
}

void alias_audit(struct sim *s)
{
    for (unsigned alias = 1; s->profile.aliases && alias <= ALIASES; alias++) {
        struct ticket *t = ask(s, alias);
        t->held[0] = ledger_has_alias(&s->ledger, alias);
        struct command c = {.alias = names[alias]};
        ticket_submit(t, &c);
    }
    sim_pump(s);
}
