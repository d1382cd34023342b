# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "net/http"
require "openssl"
require "timeout"
require "uri"

module Tenax
  # One request, one answer, over connections that are kept open, each used by one thread at a time.
  class Transport
    IDLE_MAX = 15 # seconds; well below what a server closes a connection after
    CONNECT_TIMEOUT = 5
    # A connection could not be made, not even again.
    UNSENT = [Errno::ECONNREFUSED, Errno::EHOSTUNREACH, Errno::ENETUNREACH, Net::OpenTimeout,
              SocketError].freeze
    BROKEN = [IOError, SystemCallError, SocketError, Timeout::Error, Net::ProtocolError,
              OpenSSL::SSL::SSLError, Net::HTTPBadResponse, Net::HTTPHeaderSyntaxError].freeze
    # HOST[:PORT][/PATH], without a scheme.
    BARE_URL = %r{\A(\[[^\]]*\]|[^\s:/@\[\]?#]+)(:[0-9]+)?(/[^/?#][^?#]*)?\z}.freeze
    private_constant :UNSENT, :BROKEN, :BARE_URL

    attr_reader :url

    def initialize(url:, token:, token_file:, ca_cert:, client_cert:, client_key:)
      @url = complete(url.sub(%r{/+\z}, ""))
      @uri = URI.parse(@url)
      raise URI::InvalidURIError unless @uri.is_a?(URI::HTTP) && @uri.host && !@uri.host.empty?

      # Strict: a misspelt option must not be ignored.
      @headers = { "Accept" => "application/json", "User-Agent" => "tenax-ruby/0.1.0",
                   "Tenax-Strict" => "true" }
      @source = [token, token_file]
      authorize
      @ca_cert = ca_cert
      @cert = client_cert && OpenSSL::X509::Certificate.new(File.read(client_cert))
      @key = client_key && OpenSSL::PKey.read(File.read(client_key))
      own
    rescue URI::InvalidURIError
      raise Error, "write the server's URL like http://127.0.0.1:7890 or localhost:7890"
    end

    # What requests are sent with by now.
    def authorization
      @headers["Authorization"]
    end

    # Whether there is another one by now than was used: in its file, or read by another thread.
    def another_token?(used)
      begin
        authorize
      rescue SystemCallError, Error
        nil # it is just being written
      end
      authorization != used
    end

    # The status and the text of the answer. Raises ConnectionFailed.
    def exchange(method, path, content, timeout, headers)
      own
      connection = take
      request = Net::HTTPGenericRequest.new(method, !content.nil?, true, @uri.path + path,
                                            @headers.merge(headers))
      if content
        request["Content-Type"] = "application/json"
        request.body = content
      end
      connection.read_timeout = connection.write_timeout = timeout
      answer = ask(connection, request, method, path, timeout)
      @lock.synchronize { @idle << [now, connection] }
      [answer.code.to_i, answer.body]
    end

    # Closes the connections that are not in use.
    def close
      own
      idle = @lock.synchronize { @idle.slice!(0..) }
      idle.each { |_, connection| finish(connection) }
    end

    private

    def complete(url)
      bare = BARE_URL.match(url)
      bare ? "http://#{bare[1]}#{bare[2] || ":7890"}#{bare[3]}" : url
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    # After a fork the connections are the parent's: on them each would get the other's answers. Its
    # lock is not used either, as a thread that is not here may have it.
    def own
      return if @owner == Process.pid

      @owner = Process.pid
      @lock = Mutex.new
      @parents = @idle # kept, as a connection that is collected says good-bye on TLS
      @idle = []
    end

    def authorize
      bearer = read_token(*@source)
      @headers["Authorization"] = "Bearer #{bearer}" if bearer
    end

    # As given, or from the file, or as the environment says.
    def read_token(token, token_file)
      source = "the token"
      if token.nil? && token_file
        source = token_file
        token = File.read(token_file)
      elsif token.nil?
        source = "TENAX_TOKEN"
        token = ENV.fetch(source, "")
        return nil if token.empty?
      end
      # The message must not quote what may be a secret.
      raise Error, "#{source} has no token, or more than one" unless token.strip.match?(/\A[!-~]+\z/)

      token.strip
    end

    # Net::HTTP's own limits begin anew with each byte.
    def ask(connection, request, method, path, timeout)
      Timeout.timeout(timeout, Timeout::Error, "no answer in time") { connection.request(request) }
    rescue *BROKEN => e
      finish(connection)
      raise ConnectionFailed.new("#{method} #{path}: #{e.message}",
                                 sent: UNSENT.none? { |kind| e.is_a?(kind) })
    end

    # Net::HTTP itself connects again if it finds that the server has closed the connection.
    def take
      loop do
        since, connection = @lock.synchronize { @idle.pop }
        return connect if connection.nil?
        return connection if now - since < IDLE_MAX

        finish(connection)
      end
    end

    def connect
      http = Net::HTTP.new(@uri.hostname, @uri.port)
      http.open_timeout = http.ssl_timeout = CONNECT_TIMEOUT
      http.max_retries = 0 # Client knows what may be repeated
      http.keep_alive_timeout = 2 * IDLE_MAX
      if @uri.scheme == "https"
        http.use_ssl = true
        http.ca_file = @ca_cert if @ca_cert
        http.cert = @cert
        http.key = @key
      end
      http.start
    rescue *BROKEN => e
      raise ConnectionFailed.new("cannot reach #{@url}: #{e.message}", sent: false)
    end

    def finish(connection)
      connection.finish if connection.started?
    rescue IOError
      nil # it was closed already
    end
  end
  private_constant :Transport
end
