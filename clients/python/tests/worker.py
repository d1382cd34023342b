# SPDX-License-Identifier: Apache-2.0
"""The worker that tests/clients/language.js kills and restarts servers under."""

import logging
import sys
import threading
import time

import tenax


def main(queue, concurrency, lease_ms, grace_ms, ledger):
    lock = threading.Lock()

    def note(job):
        with lock, open(ledger, "a", encoding="utf-8") as file:
            file.write(f"{job.type} {job.id} {job.run}\n")

    def work(job):
        time.sleep(job.payload["ms"] / 1000)
        note(job)

    def hold(job):
        note(job)
        try:
            job.wait(60)
        except tenax.GiveBack:
            job.save({"run": job.run})
            raise

    def deaf(job):
        note(job)
        time.sleep(60)

    def tell(job):
        job.progress(0.5)
        job.save({"run": job.run})
        note(job)

    def fail(job):
        note(job)
        raise tenax.Failure("it failed")

    def more(job):
        client = tenax.Client(retry_for=job.payload["retry_ms"] / 1000)
        try:
            client.enqueue(job.payload["queue"], "work", {"ms": 0})
        except tenax.ForeignAnswer as e:
            return str(e)
        return "enqueued"

    def many(job):
        try:
            tenax.Client().request("POST", "/jobs/success", {"ids": job.payload["ids"]})
        except tenax.Unprocessable as e:
            return e.body["not_found"]
        return []

    handlers = {"work": work, "hold": hold, "deaf": deaf, "tell": tell, "fail": fail, "more": more,
                "many": many}
    tenax.Worker(tenax.Client(), queue, handlers,
                 concurrency=int(concurrency), lease=int(lease_ms) / 1000,
                 grace=int(grace_ms) / 1000).run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    main(*sys.argv[1:])
