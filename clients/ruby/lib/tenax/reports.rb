# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "json"

module Tenax
  # How a run ended, said to the server.
  class Reports
    TRACE_MAX = 16_000
    private_constant :TRACE_MAX

    def initialize(worker)
      @worker = worker
      @log = worker.log
    end

    # Runs the handler. The verb of the report and its members; no verb: there is nothing to report.
    def outcome(job, handler)
      result = handler.call(job)
      ["success", result.nil? ? {} : { result: result }]
    rescue GiveBack => e
      told = e.members
      told[:message] = text(told[:message].to_s) if told[:message]
      ["release", Client.members(told)]
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

    def failure(job, error)
      from = error.is_a?(Failure) ? error.cause : error
      members = { message: text(error.message.empty? ? error.class.name : error.message),
                  backtrace: from && text(from.full_message(highlight: false, order: :top))[0, TRACE_MAX],
                  run_ms: ((now - job.started) * 1000).round }
      if error.is_a?(Failure)
        members.merge!(error.members)
      else
        members[:error_type] = error.class.name
        members[:exit_code] = error.status if error.is_a?(SystemExit)
      end
      Client.members(members)
    end

    # Messages may be of any encoding.
    def text(string)
      string.encode("UTF-8", invalid: :replace, undef: :replace).scrub
    end

    # Whether there is nothing more to say.
    def once(job, verb, body, tries)
      answer = job.post(verb, body)
      @log.info("job #{job.id} failed: #{body[:message]} (#{answer['reason']})") if verb == "failure"
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
    rescue JSON::GeneratorError, EncodingError, SystemStackError => e
      refused(job, verb, body, e)
    end

    # A report that the server does not take becomes a failure that it can take.
    def refused(job, verb, body, error)
      @log.error("job #{job.id}: the report of its #{verb} is refused: #{error.message}")
      if verb == "release" # better at once than when the lease is over
        report(job, verb, {}) unless body.empty?
        return true
      end

      @worker.client.request("POST", "/jobs/#{job.id}/failure", {
        token: job.token, message: text("the report was refused: #{error.message}"),
        error_type: "ReportRefused"
      }, repeat: true)
      true
    rescue Error => e
      @log.error("job #{job.id}: nor is that: #{e.message}")
      true
    end
  end
  private_constant :Reports
end
