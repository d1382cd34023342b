/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_MUST_H
#define BASE_MUST_H

/* Assertions about the program itself. They stay on in release builds, have no
 * side effect and never test outside input: a client's mistake is a struct err,
 * only a programmer's mistake ends the process. */

/* Reports the failed assertion on standard error, and aborts. */
_Noreturn void must_fail(const char *expr, const char *file, int line);

#define must(expr) (__builtin_expect(!!(expr), 1) ? (void)0 : must_fail(#expr, __FILE__, __LINE__))

#endif
