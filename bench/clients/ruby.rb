# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

clients, mode, queue, jobs, concurrency = ARGV
$LOAD_PATH.unshift("#{clients}/ruby/lib")
require "tenax"

client = Tenax::Client.new
clock = -> { [Process::CLOCK_MONOTONIC, Process::CLOCK_PROCESS_CPUTIME_ID].map { |id| Process.clock_gettime(id) } }
begun, cpu = clock.call
if mode == "drain"
  Tenax::Worker.new(client, queue, concurrency: Integer(concurrency)) { |_job| nil }.run(drain: true)
else
  left = Thread::Queue.new(Array.new(Integer(jobs))).close
  Array.new(Integer(concurrency)) do
    Thread.new do
      until left.empty?
        left.pop
        client.enqueue(queue, "t", { n: 1 })
      end
    end
  end.each(&:join)
end
seconds, used = clock.call
puts JSON.generate({ seconds: seconds - begun, cpu: used - cpu })
