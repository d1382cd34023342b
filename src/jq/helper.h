/* SPDX-License-Identifier: Apache-2.0 */
#ifndef JQ_HELPER_H
#define JQ_HELPER_H

/* The process that runs jq expressions: `tenax jq-helper BYTES`, started by jq/pool.h. libjq cannot
 * be interrupted, so the pool ends the process with SIGKILL when an expression takes too long; the
 * kernel limits its memory. It has no environment and can open no file. It reads requests from
 * standard input until that ends. */
int helper_main(int argc, char **argv);

#endif
