/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_BACKEND_CONTRACT_FIXTURE_H
#define TESTS_BACKEND_CONTRACT_FIXTURE_H

/* Shared by the files of the contract: the backend under test, and sending commands to it. */

#include "answers.h"
#include "contract.h"

struct fixture {
    void *rig;
    struct backend *b;
};

/* Sets the backend that the following tests are about. */
void fixture_of(const struct contract_driver *driver);
int fixture_setup(void **state);
int fixture_teardown(void **state);
#define FIXTURE_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

void fixture_turn(struct fixture *f);
/* Turns until it is idle. */
void fixture_settle(struct fixture *f);
instant fixture_now(struct fixture *f);
/* Advances the time, without a turn. */
void fixture_pass(struct fixture *f, span by);
void fixture_turn_after(struct fixture *f, int64_t ms);
void fixture_restart(struct fixture *f);
void fixture_crash(struct fixture *f);
void fixture_hold(struct fixture *f, bool on);
void fixture_fill(struct fixture *f, bool on);
/* Makes room again, and lets the backend find out. */
void fixture_empty(struct fixture *f);

void fixture_send(struct fixture *f, struct command c, struct answer *to);
/* The same, and turns until the reply arrives. */
void fixture_ask(struct fixture *f, struct command c, struct answer *to);
void fixture_enqueue(struct fixture *f, const char *queue, struct answer *to);
/* Adds a job, and makes it durable. */
struct id fixture_add(struct fixture *f, const char *queue);
enum status fixture_status(struct fixture *f, struct id id); /* STATUS_GONE if it is not there */
uint64_t fixture_count(struct fixture *f);                   /* all jobs */
/* Opens a stream and turns until it is open or refused; fixture_stream does not turn. */
struct err fixture_try_stream(struct fixture *f, const char *queue, uint32_t prefetch,
                              struct stream *to);
void fixture_stream(struct fixture *f, const char *queue, uint32_t prefetch, struct stream *to);
struct backend_claim *fixture_claim(struct fixture *f, const char *queue, uint32_t count, span wait,
                                    struct answer *to);

/* Groups of tests; each returns how many failed. */
int contract_kinds(bool with_full_disk);
int contract_events(void);
int contract_disk(void);
int contract_policies(void);
int contract_kv(void);
int contract_groups(void);

#endif
