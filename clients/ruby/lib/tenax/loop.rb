# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module Tenax
  # One call of Worker#run, in its thread; others tell it by a queue what happened, and wake it up.
  class Loop
    CLAIM_MAX = 1000 # jobs that one claim may ask for
    CLAIM_GRACE = 2 # seconds for the answer to a claim that was withdrawn
    FOREIGN_PAUSE_MAX = 15.0 # seconds between claims that something in between answers
    private_constant :CLAIM_MAX, :CLAIM_GRACE, :FOREIGN_PAUSE_MAX

    def initialize(worker, leases, handler, stops, reader, drain:)
      @worker = worker
      @log = worker.log
      @leases = leases
      @reports = Reports.new(worker)
      @handler = handler
      @stop_calls = stops
      @reader = reader
      @drain = drain
      @news = Thread::Queue.new
      @running = {} # by token: handlers that have not returned
      @left = {} # of these, those that are not waited for any more
      @returning = 0
      @claiming = false
      @claim_id = nil # of the last claim, if it had no answer: the next one repeats it
      @idle = false # the last claim got nothing
      @tries = 0
      @claim_at = @stop_at = @withdraw_at = @claim_end = now
      @stops = 0
      @error = nil
    end

    def run
      until done?
        begin_claim
        @reader.read_nonblock(4096, exception: false) if @reader.wait_readable(pause)
        hear(@news.pop) until @news.empty?
        stop while @stop_calls.size.positive? && @stop_calls.pop
        end_handlers if @stops.positive?
      end
      raise @error if @error
    end

    private

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def tell(*news)
      @news << news
      @worker.wake
    end

    def hear(news)
      kind, what = news
      case kind
      when :claimed then claimed(what)
      when :refused then refused(what)
      when :ended
        @running.delete(what.token)
        @idle = false
      when :returned then @returning -= 1
      end
    end

    def done?
      return true if @stops > 2
      return false if @claiming || @returning.positive?
      return @running.each_key.all? { |token| @left.key?(token) } if @stops.positive?

      @drain && @idle && @running.empty?
    end

    def pause
      return 0.05 if @stops.positive?

      left = @claim_at - now
      left.positive? ? left : 3600
    end

    # --- claims ---

    def begin_claim
      free = @worker.concurrency - @running.size
      return if @stops.positive? || @claiming || free <= 0 || now < @claim_at
      return if @drain && @idle && !@running.empty? # until one of them has ended

      start_claim(free, @drain ? 0 : @worker.wait)
    end

    def start_claim(free, wait)
      @claiming = true
      id = @claim_id ||= SecureRandom.hex(16)
      Thread.new { claim([free, CLAIM_MAX].min, wait, id) }
    end

    def claim(count, wait, id)
      body = Client.members({ queues: @worker.queues, count: count, worker: @worker.name,
                              node: @worker.node, claim_id: id, lease_ms: (@worker.lease * 1000).round,
                              wait_ms: (wait * 1000).round,
                              max_run_ms: @worker.max_run && (@worker.max_run * 1000).round })
      answer = @worker.client.request("POST", "/jobs/claim", body, timeout: wait + 15, retry_for: 0,
                                                                  member: "jobs")
      jobs = answer["jobs"].map { |data| Job.new(@worker.client, data, @worker.lease) }
      jobs.each { |job| @leases.add(job) }
      tell(:claimed, jobs)
    rescue StandardError => e # also an answer that is none: the loop waits for this
      tell(:refused, e)
    end

    def claimed(jobs)
      @claiming = false
      @claim_id = nil
      @tries = 0
      @claim_at = now
      @idle = jobs.empty?
      jobs.each { |job| @stops.positive? ? give_back(job) : start(job) }
    end

    def refused(error)
      @claiming = false
      return if @stops.positive?

      if error.is_a?(ApiError) && error.final?
        @error = error
        @claim_id = nil
        stop
        return
      end
      @log.warn("no jobs for now: #{error.message}")
      pause = error.is_a?(ForeignAnswer) ? Client.backoff(@tries, FOREIGN_PAUSE_MAX) : Client.backoff(@tries)
      @claim_at = now + pause
      @tries += 1
    end

    # --- runs ---

    def start(job)
      @running[job.token] = job
      thread = Thread.new do
        verb, body = @reports.outcome(job, @handler)
        @reports.report(job, verb, body) if verb && job.conclude
      ensure
        @leases.remove(job)
        tell(:ended, job)
      end
      thread.name = "tenax-#{job.id}"
    end

    # --- the end ---

    def stop
      @stops += 1
      @stop_at = now
      return if @stops > 1

      @log.info("stopping; #{@running.size} running")
      @stop_at += @worker.grace
      @withdraw_at = now
      @claim_end = now + CLAIM_GRACE
      free = @worker.concurrency - @running.size
      start_claim(free, 0) if @claim_id && !@claiming && free.positive? # what it got is given back
    end

    # What a stop makes due.
    def end_handlers
      if @claiming && now >= @claim_end
        @claiming = false # jobs that it still gets are back when their leases are over
      elsif @claiming
        return withdraw_soon # the claim would be handed what the handlers give back
      end
      @running.each_value(&:stop)
      return if now < @stop_at

      @running.each_value { |job| give_back(job) unless @left.key?(job.token) }
    end

    # Again and again, as the claim may reach the server after its withdrawal.
    def withdraw_soon
      return if now < @withdraw_at

      @withdraw_at = now + 0.3
      Thread.new { withdraw }
    end

    def withdraw
      @worker.client.request("DELETE", "/jobs/claim?worker=#{Client.escape(@worker.name)}",
                             timeout: CLAIM_GRACE, retry_for: 0)
    rescue Error => e
      @log.warn("the claim cannot be withdrawn: #{e.message}")
    end

    # The handler may still be running, but is not heard any more.
    def give_back(job)
      job.stop
      return @left[job.token] = job if job.lost?
      return unless job.conclude # it is being reported

      @left[job.token] = job
      @returning += 1
      Thread.new do
        @reports.report(job, "release", {})
        @leases.remove(job)
      ensure
        tell(:returned)
      end
    end
  end
  private_constant :Loop
end
