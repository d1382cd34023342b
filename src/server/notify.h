/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_NOTIFY_H
#define SERVER_NOTIFY_H

/* Tells the service manager how far the server is, by the protocol of sd_notify(3):
 * "READY=1", "STOPPING=1". Does nothing where no manager asked for it (NOTIFY_SOCKET is not
 * set); if the manager cannot be reached, the log says so, and the server goes on. */
void notify_manager(const char *state);

#endif
