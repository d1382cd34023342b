/* SPDX-License-Identifier: Apache-2.0 */
#include "store/contract.h"
#include "store/memory.h"

static struct store *open_memory(const char *dir)
{
    (void)dir;
    return memory_new();
}

int main(void)
{
    return contract_run("store_memory", open_memory);
}
