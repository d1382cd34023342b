# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module Tenax
  # A run of a job, as its handler sees it.
  class Job
    RETURN_PAUSE_MAX = 60.0 # seconds before a job that is given back again and again
    private_constant :RETURN_PAUSE_MAX

    # @return [Hash] all that the claim gave
    attr_reader :data

    # For the worker.
    # @api private
    attr_accessor :lease_end
    # @api private
    attr_reader :started

    def initialize(client, data, lease)
      @client = client
      @data = data
      @started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      @lease_end = @started + lease
      @lock = Mutex.new
      @changed = ConditionVariable.new
      @lost = @stopping = @concluded = false
    end

    # @return [String]
    def id
      @data["id"]
    end

    # @return [String]
    def queue
      @data["queue"]
    end

    # @return [String]
    def type
      @data["type"]
    end

    # @return [Object]
    def payload
      @data["payload"]
    end

    # @return [Integer] failures so far
    def attempts
      @data.fetch("attempts", 0)
    end

    # @return [Integer] the index of this run, from 0
    def run
      @data.fetch("run", 0)
    end

    # @return [Object, nil] what an earlier run saved
    def checkpoint
      @data["checkpoint"]
    end

    # @return [String, nil] the trace that it belongs to
    def traceparent
      @data["traceparent"]
    end

    # @return [String, nil]
    def tracestate
      @data["tracestate"]
    end

    # @return [Integer, nil] milliseconds that this run may take, if it has a limit
    def max_run_ms
      @data["max_run_ms"]
    end

    # The run is over for the server: its lease or its time ran out, or the job was canceled or deleted. Stop the
    # work; nothing that is reported now would count.
    def lost?
      @lost
    end

    # The worker is about to end. Finish soon, or save a checkpoint and raise GiveBack.
    def stopping?
      @stopping
    end

    # Raises LeaseLost if the run is lost, and GiveBack if the worker is about to end.
    def check
      raise LeaseLost, "job #{id}: the run is over" if @lost
      raise GiveBack, "job #{id}: the worker ends" if @stopping
    end

    # Sleeps, but not beyond the moment when check would raise; then raises the same.
    def wait(seconds)
      finish = now + seconds
      @lock.synchronize do
        until @lost || @stopping || (left = finish - now) <= 0
          @changed.wait(@lock, left)
        end
      end
      check
    end

    # Says how far the work is, from 0 to 1; +event+ tells consumers of events, too. It is lost if the
    # server cannot be reached just now. Raises LeaseLost.
    def progress(value = nil, note = nil, event: nil)
      say({ progress: { value: value, note: note, event: event }.compact })
    rescue ConnectionFailed
      nil # the next one says more
    end

    # Saves a checkpoint of at most 64 KiB: it is on the server's disk when this returns. Tries as long
    # as the lease lasts; raises LeaseLost.
    def save(checkpoint)
      tries = 0
      begin
        say({ checkpoint: checkpoint })
      rescue ConnectionFailed
        sleep(Client.backoff(tries))
        tries += 1
        retry
      end
    end

    # One try of a report.
    # @api private
    def post(verb, body)
      @client.report(id, verb, { token: token, **body })
    end

    # Seconds after which it may come again, if it is given back without a time.
    # @api private
    def pause
      before = run - attempts # runs that were no failures
      before.positive? && !@stopping ? [RETURN_PAUSE_MAX, 0.1 * 2**[before - 1, 20].min].min : 0
    end

    # @api private
    def token
      @data["token"]
    end

    # Whether the caller is the one who may say how the run ended.
    # @api private
    def conclude
      @lock.synchronize do
        first = !@lost && !@concluded
        @concluded = true
        first
      end
    end

    # Whether it has changed anything: once a report is under way its answer counts, not that of a
    # renewal which came later.
    # @api private
    def lose
      @lock.synchronize do
        return false if @lost || @concluded

        @lost = true
        @changed.broadcast
        true
      end
    end

    # @api private
    def stop
      @lock.synchronize do
        @stopping = true
        @changed.broadcast
      end
    end

    private

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    # An error that says that the run is over makes it lost.
    def say(body)
      raise LeaseLost, "job #{id}: the run is over" if @lost || @concluded

      post("progress", body)
    rescue StaleToken, NotFound => e
      lose
      raise LeaseLost, "job #{id}: #{e.message}"
    rescue ServerError => e
      raise ConnectionFailed.new(e.message, sent: true)
    end
  end
end
