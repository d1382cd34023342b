/* SPDX-License-Identifier: Apache-2.0 */
#include "build_world.h"

void world_pod_write(const struct world *w, const struct world_build *b, struct buf *out)
{
    int64_t age = instant_diff(w->now, b->created).ms;
    const char *phase = "Pending", *node = "\"nodeName\":\"node-1\"", *state = "{}";
    bool runs = b->fate == FATE_RUNS || b->fate == FATE_STOPPED
                    ? age > 20000
                    : b->fate == FATE_SLOW && age > 240000;
    if (b->fate == FATE_NO_NODE || age < 2000)
        node = "\"x\":1";
    else if (runs) {
        phase = "Running";
        state = "{\"running\":{\"startedAt\":\"2026-01-01T00:00:00Z\"}}";
    } else if (b->fate == FATE_BAD_IMAGE) {
        state = "{\"waiting\":{\"reason\":\"ErrImagePull\",\"message\":\"no such image\"}}";
    } else if (b->fate == FATE_CRASHES) {
        state = "{\"waiting\":{\"reason\":\"CrashLoopBackOff\"}}";
    } else {
        state = "{\"waiting\":{\"reason\":\"PodInitializing\"}}";
    }
    buf_print(out,
              "{\"metadata\":{\"name\":\"p\",\"creationTimestamp\":\"2026-01-01T00:00:00Z\"},"
              "\"spec\":{%s,\"containers\":[{\"name\":\"b\"}]},\"status\":{\"phase\":\"%s\","
              "\"containerStatuses\":[{\"name\":\"b\",\"state\":%s}]}}",
              node, phase, state);
}
