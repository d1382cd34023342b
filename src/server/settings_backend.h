/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_SETTINGS_BACKEND_H
#define SERVER_SETTINGS_BACKEND_H

/* What of a server's settings concerns its backend. */

#include "backend/backend.h"
#include "server/settings.h"

/* Strings are those of the settings. */
struct backend_settings settings_backend(const struct settings *set);

#endif
