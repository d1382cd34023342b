# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

# The worker that tests/clients/language.js kills and restarts servers under.

require "tenax"

queue, concurrency, lease_ms, grace_ms, ledger = ARGV
lock = Mutex.new
note = lambda do |job|
  lock.synchronize { File.open(ledger, "a") { |file| file.puts("#{job.type} #{job.id} #{job.run}") } }
end

work = lambda do |job|
  sleep(job.payload["ms"] / 1000.0)
  note.call(job)
  nil
end
hold = lambda do |job|
  note.call(job)
  job.wait(60)
rescue Tenax::GiveBack
  job.save({ run: job.run })
  raise
end
deaf = lambda do |job|
  note.call(job)
  sleep(60)
end

tell = lambda do |job|
  job.progress(0.5)
  job.save({ run: job.run })
  note.call(job)
  nil
end
fail = lambda do |job|
  note.call(job)
  raise Tenax::Failure, "it failed"
end
more = lambda do |job|
  client = Tenax::Client.new(retry_for: job.payload["retry_ms"] / 1000.0)
  client.enqueue(job.payload["queue"], "work", { ms: 0 })
  "enqueued"
rescue Tenax::ForeignAnswer => e
  e.message
end

many = lambda do |job|
  Tenax::Client.new.request("POST", "/jobs/success", { ids: job.payload["ids"] })
  []
rescue Tenax::Unprocessable => e
  e.body["not_found"]
end

handlers = { "work" => work, "hold" => hold, "deaf" => deaf, "tell" => tell, "fail" => fail,
             "more" => more, "many" => many }
Tenax::Worker.new(Tenax::Client.new, queue, handlers, concurrency: concurrency.to_i,
                                                      lease: lease_ms.to_i / 1000.0,
                                                      grace: grace_ms.to_i / 1000.0).run
