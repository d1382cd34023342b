# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module Tenax
  # Calls that wait for each other, in their order: what comes up while a request is under way travels with
  # the next one. Nobody waits who is alone.
  #
  # Of one process: after a fork those that wait are the parent's. Requests have threads of their own, as a
  # handler is interrupted when it takes too long.
  class Together
    MOST = 1000 # in one request
    BYTES_MOST = 512 * 1024 # below what servers and proxies take
    SLOW = 1.0 # seconds after which a request is not waited for any more

    # What a thread has to say, and what it hears: with neither an answer nor an error it is to be sent by
    # itself.
    Call = Struct.new(:id, :outcome, :content, :answer, :error, :taken, :over, :heard)

    attr_reader :process

    # The block sends some of them, and sets what each hears.
    def initialize(slow: SLOW, &send)
      @send = send
      @slow = slow
      @process = Process.pid
      @lock = Mutex.new
      @waiting = []
      @sender = nil # the thread of the request that is waited for
    end

    # @return [Call] the same
    def add(call)
      call.heard = ConditionVariable.new
      @lock.synchronize do
        @waiting << call
        start unless @sender
        until call.over
          call.heard.wait(@lock, @slow)
          start if call.equal?(@waiting.first)
        end
      ensure
        @waiting.delete_if { |one| one.equal?(call) } unless call.taken # its thread was interrupted
      end
      raise call.error if call.error

      call
    end

    private

    def start
      @sender = Thread.new { run }
      @sender.report_on_exception = false
    end

    def run
      calls = @lock.synchronize { take }
      begin
        @send.call(calls) unless calls.empty?
      rescue StandardError => e
        calls.each { |call| call.error = e }
      ensure
        @lock.synchronize { finish(calls) }
      end
    end

    def take
      bytes = 0
      count = @waiting.first(MOST).take_while.with_index do |call, i|
        bytes += call.content.bytesize
        i.zero? || bytes <= BYTES_MOST
      end.size
      @waiting.shift(count).each { |call| call.taken = true }
    end

    def finish(calls)
      calls.each do |call|
        call.over = true
        call.heard.signal
      end
      return unless @sender.equal?(Thread.current)

      @sender = nil
      start unless @waiting.empty?
    end
  end
  private_constant :Together

  # Reports of runs: alone by a request of its own, several by POST /jobs/reports.
  class ManyReports
    UNKNOWN = %w[no_such_path method_not_allowed].freeze
    LIMITS = { timeout: 10, retry_for: 0 }.freeze
    private_constant :UNKNOWN, :LIMITS

    def initialize(client, **options)
      @client = client
      @options = options
      @known = true
      @here = Together.new(**options) { |calls| send_all(calls) }
    end

    # The answer to a report; +content+ is its JSON, an object with a token at least.
    def report(id, outcome, content)
      call = Together::Call.new(id, outcome, content)
      # Of a release that is repeated, as its answer was lost, the server says that its run is over.
      return alone(call) if outcome == "release" || !@known

      here.add(call)
      call.answer || alone(call)
    end

    private

    # What waits in this process.
    def here
      @here = Together.new(**@options) { |calls| send_all(calls) } if @here.process != Process.pid
      @here
    end

    def alone(call)
      @client.request_content("POST", "/jobs/#{call.id}/#{call.outcome}", call.content, **LIMITS)
    end

    def send_all(calls)
      return calls[0].answer = alone(calls[0]) || {} if calls.size == 1

      # Whatever was refused hears why by a request of its own.
      many(calls).zip(calls) { |answer, call| call.answer = answer unless answer.key?("code") }
    rescue ApiError, ForeignAnswer => e
      @known = false if e.is_a?(ApiError) && UNKNOWN.include?(e.code)
      # The fault may be of one of many, or of the path, which some proxies do not know.
      raise if calls.size == 1 || (e.is_a?(ApiError) && (!e.final? || e.is_a?(Unauthorized)))
    end

    def many(calls)
      reports = calls.map { |call| "{\"id\":\"#{call.id}\",\"outcome\":\"#{call.outcome}\",#{call.content[1..]}" }
      answers = ask("{\"reports\":[#{reports.join(',')}]}")
      own = answers.is_a?(Array) && answers.size == calls.size &&
            answers.zip(calls).all? { |answer, call| answer.is_a?(Hash) && answer["id"] == call.id }
      raise ForeignAnswer.new("POST", "/jobs/reports", 200) unless own

      answers
    end

    def ask(content)
      @client.request_content("POST", "/jobs/reports", content, member: "reports", **LIMITS)["reports"]
    rescue ApiError => e
      raise unless e.body.is_a?(Hash) && e.body.key?("reports")

      e.body["reports"] # some were refused
    end
  end
  private_constant :ManyReports

  # Enqueues of plain jobs: alone by POST /jobs, several by POST /jobs/bulk.
  class Enqueues
    # Members that have nothing to do with other jobs, which might refuse or change all of a bulk.
    PLAIN = %i[queue type payload priority ready_at retry_limit backoff retention deadline retain_until max_run_ms
               retry_for_ms annotations traceparent tracestate].freeze
    private_constant :PLAIN

    def self.plain?(job)
      job.each_key.all? { |name| PLAIN.include?(name) }
    end

    # The block sends one request, of a path and its content.
    def initialize(**options, &enqueue)
      @enqueue = enqueue
      @options = options
      @answered = true # a bulk, by Tenax
      @here = Together.new(**options) { |calls| send_all(calls) }
    end

    # The job as it was added; +content+ is its JSON.
    def enqueue(content)
      return @enqueue.call("/jobs", content) unless @answered

      @here = Together.new(**@options) { |calls| send_all(calls) } if @here.process != Process.pid
      call = @here.add(Together::Call.new(nil, nil, content))
      call.answer || @enqueue.call("/jobs", content)
    end

    private

    def send_all(calls)
      return calls[0].answer = @enqueue.call("/jobs", calls[0].content) if calls.size == 1

      jobs = @enqueue.call("/jobs/bulk", "{\"jobs\":[#{calls.map(&:content).join(',')}]}")["jobs"]
      raise ForeignAnswer.new("POST", "/jobs/bulk", 200) unless jobs.is_a?(Array) && jobs.size == calls.size

      calls.zip(jobs) { |call, job| call.answer = job }
    rescue ForeignAnswer
      @answered = false # nobody knows what became of these
      raise
    rescue ApiError => e
      # Of what may be the fault of one each has to hear by itself.
      raise if calls.size == 1 || !e.final? || e.is_a?(Unauthorized)
    end
  end
  private_constant :Enqueues
end
