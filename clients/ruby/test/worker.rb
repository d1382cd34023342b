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

handlers = { "work" => work, "hold" => hold, "deaf" => deaf }
Tenax::Worker.new(Tenax::Client.new, queue, handlers, concurrency: concurrency.to_i,
                                                      lease: lease_ms.to_i / 1000.0,
                                                      grace: grace_ms.to_i / 1000.0).run
