# SPDX-License-Identifier: Apache-2.0

import itertools
import json
import sys
import threading
import time

clients, mode, queue, jobs, concurrency = sys.argv[1:]
sys.path.insert(0, clients + "/python")
import tenax  # noqa: E402

client = tenax.Client()
begun, cpu = time.monotonic(), time.process_time()
numbers = itertools.count()


def enqueue():
    while next(numbers) < int(jobs):
        client.enqueue(queue, "t", {"n": 1})


if mode == "drain":
    tenax.Worker(client, queue, lambda job: None, concurrency=int(concurrency)).run(drain=True)
else:
    threads = [threading.Thread(target=enqueue) for _ in range(int(concurrency))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print(json.dumps({"seconds": time.monotonic() - begun, "cpu": time.process_time() - cpu}))
