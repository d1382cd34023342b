# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "json"
require "timeout"

module Tenax
  # How a run ended, said to the server.
  class Reports
    TRACE_MAX = 16_000
    # No StandardError, so that a handler's rescue does not take it for one of its own.
    class Overrun < Exception; end # rubocop:disable Lint/InheritException
    private_constant :TRACE_MAX, :Overrun

    def initialize(worker)
      @worker = worker
      @log = worker.log
    end

    # Runs the handler. The verb of the report and its members; no verb: there is nothing to report.
    def outcome(job, handler)
      result = in_time(job) { handler.call(job) }
      ["success", result.nil? ? {} : { result: storable(job, result) }]
    rescue GiveBack => e
      ["release", returned(job, e)]
    rescue LeaseLost
      [nil, {}]
    rescue Exception => e # an exit, too: it ends the run, not the worker
      ["failure", failure(job, e)]
    end

    # Reports until there is an answer, or the lease is over. The same may be said twice.
    def report(job, verb, body)
      tries = 0
      until once(job, verb, body, tries)
        sleep(Client.backoff(tries))
        tries += 1
      end
    end

    private

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    # Ends a handler that takes longer than it may. The server ends the run by itself, and would refuse
    # a report of it.
    def in_time(job, &work)
      return work.call unless job.max_run_ms

      Timeout.timeout(job.max_run_ms / 1000.0, Overrun, &work)
    rescue Overrun
      job.lose
      @log.warn("job #{job.id} is lost: it took longer than its max_run_ms, #{job.max_run_ms}")
      raise LeaseLost, "job #{job.id}: the run is over"
    end

    # The result, or a note in its place: the work is done, and must not be done again for it.
    def storable(job, result)
      Client.encode(result)
      result
    rescue StandardError, SystemStackError => e # whatever an object of the handler's raises
      omitted(job, e)
    end

    def omitted(job, error)
      why = text(error.message)[0, 1000]
      @log.warn("job #{job.id} (#{job.type}) has succeeded, but its result is not kept: #{why}")
      { result_omitted: why }
    end

    def returned(job, back)
      told = back.members(job.pause)
      told[:message] = text(told[:message].to_s) if told[:message]
      Client.members(told)
    rescue ArgumentError, TypeError, NoMethodError => e # a time that is none
      @log.warn("job #{job.id} (#{job.type}) is given back, but not for later: #{e.message}")
      later(job)
    end

    def later(job)
      job.pause.positive? ? { delay_ms: (job.pause * 1000).round } : {}
    end

    def failure(job, error)
      from = error.is_a?(Failure) ? error.cause : error
      members = { message: text(error.message.empty? ? error.class.name : error.message),
                  backtrace: from && text(from.full_message(highlight: false, order: :top))[0, TRACE_MAX],
                  run_ms: ((now - job.started) * 1000).round }
      if error.is_a?(Failure)
        merge(members, error.members)
      else
        members[:error_type] = error.class.name
        members[:exit_code] = error.status if error.is_a?(SystemExit)
      end
      Client.members(members)
    end

    # A time that is none is known by its words.
    def merge(members, known)
      members.merge!(Client.members(known))
    rescue ArgumentError => e
      members[:message] += " (#{e.message})"
    end

    # Messages may be of any encoding.
    def text(string)
      string.encode("UTF-8", invalid: :replace, undef: :replace).scrub
    end

    # Whether there is nothing more to say.
    def once(job, verb, body, tries)
      answer = job.post(verb, body)
      if verb == "failure"
        @log.warn("job #{job.id} (#{job.type}) failed: #{body[:message]} (#{answer['reason']})")
      end
      true
    rescue StaleToken, NotFound => e
      earlier = tries.positive? ? "; an earlier try may have arrived" : ""
      @log.warn("job #{job.id}: the run was over when it was reported#{earlier}: #{e.message}")
      true
    rescue ApiError, ConnectionFailed => e
      return refused(job, verb, body, e) if e.is_a?(ApiError) && e.final?
      if job.lease_end > now || tries.zero?
        @log.warn("job #{job.id}: the report of its #{verb} is sent again: #{e.message}")
        return false
      end
      @log.warn("job #{job.id}: its lease ran out before the report: #{e.message}")
      true
    rescue JSON::GeneratorError, EncodingError, SystemStackError, TypeError => e
      refused(job, verb, body, e)
    end

    # A report that the server does not take becomes one of the same kind that it can take.
    def refused(job, verb, body, error)
      if verb == "success" && body.key?(:result) && !note?(body[:result])
        report(job, verb, { result: omitted(job, error) })
        return true
      end
      @log.error("job #{job.id}: the report of its #{verb} is refused: #{error.message}")
      if verb == "release" # better than when the lease is over
        report(job, verb, later(job)) unless body.empty?
        return true
      end
      fail_with(job, verb, body, text("the report was refused: #{error.message}"))
      true
    end

    def note?(result)
      result.is_a?(Hash) && result.keys == [:result_omitted]
    end

    # What is not known by its members is known by its words.
    def fail_with(job, verb, body, refusal)
      message = verb == "failure" ? "#{body[:message]} (#{refusal})" : refusal
      @worker.client.request("POST", "/jobs/#{job.id}/failure",
                             { token: job.token, message: message[0, 4000], error_type: "ReportRefused" },
                             repeat: true)
    rescue Error => e
      @log.error("job #{job.id}: nor is that: #{e.message}")
    end
  end
  private_constant :Reports
end
