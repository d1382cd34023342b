# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "erb"
require "json"
require "logger"
require "securerandom"

module Tenax
  # A server, by its URL. May be used by many threads, and on both sides of a fork, as under Puma.
  #
  # What is not given comes from the environment, as for the tenax commands: TENAX_URL, TENAX_TOKEN_FILE
  # or TENAX_TOKEN, TENAX_CA_CERT, TENAX_CLIENT_CERT, TENAX_CLIENT_KEY.
  class Client
    BACKOFF_FIRST = 0.1 # seconds
    BACKOFF_MAX = 2.0
    # The server says of these that nothing was done.
    NOT_DONE = %w[busy stopping disk_full request_timeout].freeze
    FAILING = [500, 502, 503, 504].freeze
    private_constant :BACKOFF_FIRST, :BACKOFF_MAX, :NOT_DONE, :FAILING

    # Seconds to wait before the next try, a random half of them.
    def self.backoff(tries, most = BACKOFF_MAX)
      full = [most, BACKOFF_FIRST * 2**[tries, 10].min].min
      rand((full / 2)..full)
    end

    # Members that are points in time, in milliseconds since 1970.
    TIMES = %i[ready_at retry_at deadline retain_until].freeze
    private_constant :TIMES

    # Times as the server has them; what is nil is left out. ArgumentError for a time in seconds, as
    # Time#to_i has it, which would be long ago.
    def self.members(hash)
      hash.compact.to_h { |name, value| [name, member(name, value)] }
    end

    def self.member(name, value)
      return (value.to_r * 1000).round if value.is_a?(Time)
      return value unless TIMES.include?(name) && value.is_a?(Numeric) && value >= 1e9 && value < 1e11

      raise ArgumentError, "#{name} is in milliseconds since 1970, and #{value} looks like seconds; " \
                           "a Time will do, too"
    end
    private_class_method :member

    # JSON. TypeError for what has none: a generator would make a text of it.
    def self.encode(value)
      check_json(value, 0)
      JSON.generate(value)
    end

    def self.check_json(value, depth)
      raise TypeError, "a value in a value, a hundred times, has no JSON here" if depth > 100

      case value
      when nil, true, false, String, Symbol, Integer, Float then nil # a Float that is none is refused later
      when Array then value.each { |one| check_json(one, depth + 1) }
      when Hash then value.each_value { |one| check_json(one, depth + 1) }
      else raise TypeError, "a #{value.class} has no JSON; give a text or a number"
      end
    end
    private_class_method :check_json

    # Text as a part of a path or a query.
    def self.escape(text)
      ERB::Util.url_encode(text)
    end

    # @param timeout [Numeric] seconds; limits each request
    # @param retry_for [Numeric] seconds; for how long a request without an answer is repeated, if that
    #   is safe
    # @param idempotent [Boolean] whether each enqueue has an Idempotency-Key, so that it can be repeated;
    #   it costs the server some bytes of disk for a day
    # @param log [Logger] told when a request is sent again because something in between answered
    def initialize(url = nil, token: nil, token_file: nil, ca_cert: nil, client_cert: nil,
                   client_key: nil, timeout: 30, retry_for: 30, idempotent: true, log: nil)
      @log = log || Logger.new($stderr, progname: "tenax", level: Logger::WARN)
      @timeout = timeout
      @retry_for = retry_for
      @idempotent = idempotent
      @reports = ManyReports.new(self)
      @enqueues = Enqueues.new { |path, content| add(path, content, nil, false) }
      @transport = Transport.new(
        url: url || from_env("TENAX_URL") || "http://127.0.0.1:7890",
        token: token, token_file: token_file || from_env("TENAX_TOKEN_FILE"),
        ca_cert: ca_cert || from_env("TENAX_CA_CERT"),
        client_cert: client_cert || from_env("TENAX_CLIENT_CERT"),
        client_key: client_key || from_env("TENAX_CLIENT_KEY")
      )
    end

    # @return [String]
    def url
      @transport.url
    end

    # Closes the connections that are not in use.
    def close
      @transport.close
    end

    # Enqueues a job. The options are those of POST /jobs in docs/api.md by their names there; those that
    # are nil are left out, and times may be Time. One that the server does not know is a BadRequest,
    # which names the one that was probably meant.
    #
    # Whoever gives the same +idempotency_key+ and the same job again, also after a restart, is answered
    # as the first time, and no job is added. Without one each call has a key of its own, so that it can
    # be repeated when its answer is lost.
    #
    # ConnectionFailed with sent?: for as long as +retry_for+ there was no answer, and nobody knows whether
    # the job was enqueued. Without +idempotent+ only what the server recognises is repeated: a job with an
    # +alias+, or with a +unique_key+ and +unique_while+ "exists", of which the answer may then say
    # "duplicate".
    # @return [Hash] as POST /jobs answers
    def enqueue(queue, type, payload = nil, idempotency_key: nil, **options)
      job = new_job({ queue: queue, type: type, payload: payload, **options })
      content = Client.encode(job)
      return @enqueues.enqueue(content) if idempotency_key.nil? && Enqueues.plain?(job)

      add("/jobs", content, idempotency_key, may_repeat?(job))
    end

    # Enqueues all of them or none; each is a Hash of queue, type, payload and options.
    # @return [Array<Hash>]
    def enqueue_bulk(jobs, idempotency_key: nil)
      many = jobs.map { |job| new_job(job.transform_keys(&:to_sym)) }
      add("/jobs/bulk", Client.encode({ jobs: many }), idempotency_key, many.all? { |job| may_repeat?(job) })["jobs"]
    end

    # A job as it is now, with its payload, and with its runs if they are asked for.
    # @return [Hash]
    def job(id, runs: false)
      request("GET", "/jobs/#{Client.escape(id)}#{'?runs=true' if runs}")
    end

    # Any request of docs/api.md. Raises a kind of ApiError, or ConnectionFailed. +repeat+ says that it
    # may be repeated when it is not known whether it arrived; without it GET, PUT and DELETE may. An
    # answer without the +member+, if one is named, is not from Tenax.
    # @return [Object, nil] the answer's JSON, if it has a body
    def request(method, path, body = nil, **options)
      request_content(method, path, body.nil? ? nil : Client.encode(body), **options)
    end

    # Reports how a run goes, together with what else is reported meanwhile.
    # @api private
    def report(id, outcome, body)
      @reports.report(id, outcome, Client.encode(body))
    end

    # The same as request, with the text of the body.
    # @api private
    def request_content(method, path, content, repeat: %w[GET PUT DELETE].include?(method),
                        timeout: @timeout, retry_for: @retry_for, idempotency_key: nil, member: nil)
      headers = idempotency_key.nil? ? {} : { "Idempotency-Key" => idempotency_key }
      finish = now + retry_for
      tries = 0
      begin
        used = @transport.authorization
        once(method, path, content, member, timeout, headers)
      rescue ApiError, ConnectionFailed => e
        retry if e.is_a?(Unauthorized) && @transport.another_token?(used)
        pause = Client.backoff(tries)
        raise if !again?(e, repeat) || now + pause >= finish

        @log.warn("#{e.message}; it is asked again") if e.is_a?(ForeignAnswer)
        tries += 1
        sleep(pause)
        retry
      end
    end

    private

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def from_env(name)
      value = ENV.fetch(name, "")
      value.empty? ? nil : value
    end

    def add(path, content, key, repeat)
      key ||= SecureRandom.uuid if @idempotent
      request_content("POST", path, content, member: path == "/jobs/bulk" ? "jobs" : "id", idempotency_key: key,
                                             repeat: repeat || !key.nil?)
    end

    def new_job(job)
      { payload: job[:payload] }.merge(Client.members(job.reject { |name, _| name == :payload }))
    end

    # Whether the server recognises a second enqueue of the job, for as long as it keeps it.
    def may_repeat?(job)
      !job[:alias].nil? || (!job[:unique_key].nil? && job[:unique_while].to_s == "exists")
    end

    def again?(error, repeat)
      return repeat || !error.sent? if error.is_a?(ConnectionFailed)

      NOT_DONE.include?(error.code) || (repeat && FAILING.include?(error.status))
    end

    def once(method, path, content, member, timeout, headers)
      status, text = @transport.exchange(method, path, content, timeout, headers)
      body = text.nil? || text.empty? ? nil : JSON.parse(text)
      good = (200..299).cover?(status)
      own = good ? ApiError.done?(path, status, body, member) : ApiError.refusal?(path, body)
      raise ForeignAnswer.new(method, path, status) unless own
      raise ApiError.of(status, body) unless good

      body
    rescue JSON::ParserError
      raise ForeignAnswer.new(method, path, status)
    end
  end
end
