# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "logger"
require "socket"
require_relative "leases"
require_relative "loop"
require_relative "reports"

module Tenax
  # Runs a handler for each job of some queues, +concurrency+ of them at a time in threads.
  #
  # The handler is a block, or a Hash of callables by type. What it returns (JSON of at most 64 KiB) is
  # the job's result, unless it is nil. Failure, GiveBack or any other exception says how else the run
  # ended.
  class Worker
    attr_reader :client, :queues, :concurrency, :lease, :grace, :wait, :max_run, :node, :log

    # @param handlers [Hash{String => #call}, nil] by type, in the place of the block
    # @param lease [Numeric] seconds that the server waits for a renewal, which comes after every third
    #   of them
    # @param grace [Numeric] seconds for which handlers may go on when the worker ends
    # @param wait [Numeric] seconds that a claim waits for a job
    # @param max_run [Numeric] seconds that a run may take, unless the job or its queue has a shorter
    #   limit; then LeaseLost is raised in the handler, whatever it is doing
    # @param name [String] on record with every run
    # @param node [String] jobs that must avoid it are left to others
    def initialize(client, queues, handlers = nil, concurrency: 1, lease: 30, grace: 30, wait: 10,
                   max_run: nil, name: nil, node: nil, log: nil, &handler)
      raise ArgumentError, "concurrency must be from 1 to 10000" unless (1..10_000).cover?(concurrency)
      raise ArgumentError, "a block, or handlers by type" if handlers.nil? == handler.nil?

      @client = client
      @queues = Array(queues)
      @handler = handler || ->(job) { find(handlers, job).call(job) }
      @concurrency = concurrency
      @lease = lease
      @grace = grace
      @wait = wait
      @max_run = max_run
      @name = name
      @node = node || ENV.fetch("TENAX_NODE", nil)
      @log = log || Logger.new($stderr, progname: "tenax", level: Logger::WARN)
      @stops = Thread::Queue.new
      @reader, @writer = IO.pipe
    end

    # As given, or host and process, which may have been forked since.
    def name
      @name || "#{Socket.gethostname}-#{Process.pid}"
    end

    # Works until it is told to stop; with +drain+ until no job is ready and none runs.
    #
    # SIGTERM and SIGINT stop it, unless +signals+ is false: nothing more is claimed, handlers may go on
    # for +grace+ seconds, and what is not done then is given back. A second signal ends the wait.
    # Raises ApiError if the server refuses to hand out jobs.
    def run(drain: false, signals: true)
      before = signals ? %w[TERM INT].to_h { |name| [name, trap(name) { stop }] } : {}
      leases = Leases.new(self)
      Loop.new(self, leases, @handler, @stops, @reader, drain: drain).run
    ensure
      leases&.close
      before&.each { |name, action| trap(name, action || "DEFAULT") }
    end

    # Has run return as SIGTERM does; a second call ends the wait. From any thread, or a signal's trap.
    def stop
      @stops << true
      wake
    end

    # Has the loop look at what has happened.
    # @api private
    def wake
      @writer.write_nonblock(".")
    rescue IO::WaitWritable
      nil # it will wake up anyway
    end

    private

    def find(handlers, job)
      handlers.fetch(job.type) do
        raise Failure.new("this worker has no handler for the type #{job.type}", error_type: "NoHandler")
      end
    end
  end
end
