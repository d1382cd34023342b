/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_SERVE_H
#define SERVER_SERVE_H

/* Runs the server until it is told to stop; returns the exit code. */
int serve_main(int argc, char **argv);

#endif
