# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module Tenax
  # Whatever this package raises.
  class Error < StandardError; end

  # There was no answer. If it was not sent nothing can have happened. If it was, the outcome is
  # unknown: the server may have done what was asked.
  class ConnectionFailed < Error
    def initialize(message, sent:)
      super(message)
      @sent = sent
    end

    def sent?
      @sent
    end
  end

  # Something else answered in the server's place: a proxy, a load balancer, a sign-in page. Such an
  # answer, whatever its status, says nothing about the request: it counts as none.
  class ForeignAnswer < ConnectionFailed
    # @return [Integer] of HTTP
    attr_reader :status

    def initialize(method, path, status)
      super("#{method} #{path}: what answered with HTTP #{status} is not Tenax but something in between, " \
            "such as a proxy", sent: true)
      @status = status
    end
  end

  # The server refused. +code+ is one of docs/errors.md.
  class ApiError < Error
    # How the server's sentences name the member that is wrong: "jobs[3]: priority: expected ...".
    WHERE = /\A((?:[\w.$-]+(?:\[\d+\])*: )+)/

    # @return [Integer] of HTTP
    attr_reader :status
    # @return [String] one of docs/errors.md
    attr_reader :code
    # @return [Integer, nil] where in the body that was sent, in bytes
    attr_reader :offset
    # @return [Object] all of the answer
    attr_reader :body

    # Whether this is how Tenax refuses: with a code and a sentence. A health has neither, and
    # an answer that says what became of each of many jobs needs neither.
    def self.refusal?(path, body)
      return false unless body.is_a?(Hash)
      return true if path.split("?").first == "/health" && body["status"].is_a?(String)
      return true if %w[jobs reports not_found].any? { |member| body[member].is_a?(Array) }

      body["code"].is_a?(String) && body["code"].match?(/\A[a-z][a-z0-9_]*\z/) && body["error"].is_a?(String)
    end

    # Whether this is how Tenax says that it was done. 204 alone is without a body, and what became of one
    # run is answered so, but for a failure, whose job is shown.
    def self.done?(path, status, body, member)
      return status == 204 if path.match?(%r{\A/jobs/[^/]+/(success|release|progress)\z})

      member = "id" if path.match?(%r{\A/jobs/[^/]+/failure\z})
      (status == 204) == body.nil? && (member.nil? || (body.is_a?(Hash) && body.key?(member)))
    end

    # What an answer without a sentence says.
    def self.sentence(body)
      return "some of these leases were not renewed" if body["jobs"].is_a?(Array)
      return "some of these reports were refused" if body["reports"].is_a?(Array)
      return "some of these jobs are not in flight" if body["not_found"].is_a?(Array)

      "the server is #{body['status']}"
    end

    # The error that a refusal stands for.
    def self.of(status, body)
      kind = status >= 500 ? ServerError : BY_STATUS.fetch(status, BadRequest)
      kind = StaleToken if %w[stale_token stale_gang run_limit].include?(body["code"])
      kind.new(status, body)
    end

    def initialize(status, body)
      @sentence = body["error"] || self.class.sentence(body)
      @status = status
      @code = body["code"].to_s
      @offset = body["offset"]
      @body = body
      super("#{@sentence} (HTTP #{status}, #{@code})")
    end

    # @return [String, nil] the member that is wrong, as "jobs[3].priority", if the server names one
    def where
      found = WHERE.match(@sentence)
      found && found[1].delete_suffix(": ").gsub(": ", ".")
    end

    # Whether the same refusal would come again.
    def final?
      status < 500 && status != 408 && status != 429
    end
  end

  # 400 and other statuses that say the request is wrong as it stands.
  class BadRequest < ApiError; end
  # 401: no token, or one that is wrong, expired or deleted.
  class Unauthorized < ApiError; end
  # 403: the token does not allow it.
  class Forbidden < ApiError; end
  # 404: there is no such thing.
  class NotFound < ApiError; end
  # 409: it exists already, has changed meanwhile, or is in use.
  class Conflict < ApiError; end
  # 409 stale_token, stale_gang or run_limit: the run is over, and nothing has changed.
  class StaleToken < Conflict; end
  # 422: well-formed, but cannot be applied.
  class Unprocessable < ApiError; end
  # 5xx: the server could not do it.
  class ServerError < ApiError; end

  class ApiError
    BY_STATUS = { 401 => Unauthorized, 403 => Forbidden, 404 => NotFound, 409 => Conflict,
                  422 => Unprocessable }.freeze
    private_constant :BY_STATUS, :WHERE
  end

  # The run is not this worker's any more; a handler lets it pass through.
  class LeaseLost < Error; end

  # Raised by a handler: the job goes back to its queue, and the run does not count. With +delay+ (seconds,
  # by the server's clock) or +ready_at+ (a Time or milliseconds since 1970) it is not handed out again
  # before then. Without them it comes back at once, if it is given back for the first time, and after
  # that with a pause that doubles each time, up to a minute; at once, too, if the worker is about to end.
  class GiveBack < Error
    attr_reader :ready_at, :delay

    def initialize(message = nil, ready_at: nil, delay: nil)
      super(message)
      raise ArgumentError, "ready_at and delay exclude each other" if ready_at && delay

      @said = message
      @ready_at = ready_at
      @delay = delay
    end

    # The members of the report, if a job without a time is to wait so many seconds.
    def members(pause)
      return { message: @said, ready_at: @ready_at }.compact if @ready_at

      after = @delay || pause
      { message: @said, delay_ms: after.positive? ? (after * 1000).round : nil }.compact
    end
  end

  # Raised by a handler: the run failed, and this is what is known about it. The members are those of a
  # failure in docs/api.md: +error_type+, +exit_code+, +category+, +subcategory+, +kill+, +retry_at+ (a
  # Time or milliseconds since 1970) and all others.
  class Failure < Error
    attr_reader :members

    def initialize(message = "failed", **members)
      super(message)
      @members = members
    end
  end
end
