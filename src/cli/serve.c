/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve.h"

#include <stdio.h>

#include "cli/settings.h"

int serve_main(int argc, char **argv)
{
    struct settings s;
    int code;
    if (!settings_load(argc, argv, &s, &code))
        return code;
    fprintf(stderr, "tenax serve: this build has no server\n");
    return CLI_REFUSED;
}
