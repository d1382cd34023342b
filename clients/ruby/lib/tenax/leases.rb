# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module Tenax
  # The leases that a worker holds; a thread renews all of them by one request.
  class Leases
    # By these the server says that a run is over.
    GONE = %w[stale_token stale_gang run_limit not_found not_in_flight].freeze
    private_constant :GONE

    def initialize(worker)
      @worker = worker
      @held = {} # by token: jobs whose end is not reported yet
      @lock = Mutex.new
      @changed = ConditionVariable.new
      @closed = false
      @thread = Thread.new { renew_all }
      @thread.name = "tenax-renew"
    end

    def add(job)
      @lock.synchronize { @held[job.token] = job }
    end

    def remove(job)
      @lock.synchronize { @held.delete(job.token) }
    end

    def close
      @lock.synchronize do
        @closed = true
        @changed.broadcast
      end
    end

    private

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def held
      @lock.synchronize { @held.values.reject(&:lost?) }
    end

    # Whether to go on after so many seconds.
    def pause(seconds)
      finish = now + seconds
      @lock.synchronize do
        until @closed || (left = finish - now) <= 0
          @changed.wait(@lock, left)
        end
        !@closed
      end
    end

    def renew_all
      tries = 0
      due = @worker.lease / 3.0 # a job that is claimed meanwhile has its full lease
      while pause(due)
        begin
          drop_expired
          renew(held, now)
          tries = 0
          due = @worker.lease / 3.0
        rescue StandardError => e # whatever it is, the leases must not be forgotten
          @worker.log.warn("leases cannot be renewed: #{e.message}")
          due = Client.backoff(tries)
          tries += 1
        end
      end
    end

    def drop_expired
      held.each do |job|
        lose(job, "its lease ran out while the server did not answer") if job.lease_end <= now
      end
    end

    def renew(jobs, sent)
      return if jobs.empty?

      ask(jobs).each_with_index do |renewed, i|
        if renewed.key?("lease_expires_at")
          jobs[i].lease_end = sent + @worker.lease
        elsif GONE.include?(renewed["code"])
          lose(jobs[i], renewed["error"])
        end
      end
    end

    def ask(jobs)
      body = { lease_ms: (@worker.lease * 1000).round,
               jobs: jobs.map { |job| { id: job.id, token: job.token } } }
      @worker.client.request("POST", "/jobs/renew", body, timeout: [1, @worker.lease / 3.0].max,
                                                          retry_for: 0, member: "jobs")["jobs"]
    rescue Unprocessable => e
      # With a list: some were not renewed.
      raise unless e.body.is_a?(Hash) && e.body.key?("jobs")

      e.body["jobs"]
    end

    def lose(job, why)
      @worker.log.warn("job #{job.id} is lost: #{why}") if job.lose
    end
  end
  private_constant :Leases
end
