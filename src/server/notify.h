/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_NOTIFY_H
#define SERVER_NOTIFY_H

/* Tells the service manager the state of the server, by the protocol of sd_notify(3): "READY=1",
 * "STOPPING=1". Does nothing if no manager asked for it (NOTIFY_SOCKET is not set); if the manager
 * cannot be reached, the log says so, and the server continues. */
void notify_manager(const char *state);

#endif
