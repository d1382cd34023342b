# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

# Requests, against the server of TENAX_URL, which is behind a proxy that loses answers.

require "minitest/autorun"
require "tenax"

class TestRequests < Minitest::Test
  NOBODY = "03fr82s077azjmurys29qjch4"

  def setup
    @client = Tenax::Client.new
    @plain = Tenax::Client.new(idempotent: false)
  end

  def teardown
    [@client, @plain].each(&:close)
  end

  def drop(path, count = 1)
    @client.request("POST", "/proxy/drop", { path: path, count: count })
  end

  def count(queue)
    @client.request("GET", "/jobs/count?queue=#{queue}")["count"]
  end

  def test_options_reach_the_server
    job = @client.enqueue("options", "t", { a: [1, "ü", nil] },
                          priority: 7, ready_at: Time.utc(2100, 1, 2), retry_limit: 3, unique_key: nil,
                          backoff: { base_ms: 1, exponent: 2, jitter_ms: 3 }, alias: "options-1")
    refute job["duplicate"]
    got = @client.job(job["id"])
    assert_equal({ "a" => [1, "ü", nil] }, got["payload"])
    assert_equal [7, 3, "options-1", "scheduled", 4_102_531_200_000],
                 got.values_at("priority", "retry_limit", "alias", "status", "ready_at")
    assert_equal({ "base_ms" => 1, "exponent" => 2, "jitter_ms" => 3 }, got["backoff"])
    refute got.key?("unique_key")
    assert_equal [], @client.job("alias:options-1", runs: true)["runs"]
  end

  def test_a_unique_key_finds_the_job_that_is_there
    first = @client.enqueue("unique", "t", unique_key: "k")
    again = @client.enqueue("unique", "t", unique_key: "k")
    assert_equal [true, first["id"]], again.values_at("duplicate", "id")
  end

  def test_bulk_is_all_or_none
    jobs = @client.enqueue_bulk((0..2).map { |n| { queue: "bulk", type: "t", payload: n } })
    assert_equal([0, 1, 2], jobs.map { |job| @client.job(job["id"])["payload"] })
    error = assert_raises(Tenax::BadRequest) do
      @client.enqueue_bulk([{ queue: "bulk", type: "t" }, { "queue" => "bulk", "type" => "t", "priority" => -1 }])
    end
    assert_equal [400, "bad_value", "jobs[1].priority"], [error.status, error.code, error.where]
    assert_operator error.offset, :>, 0
    assert_equal 3, count("bulk")
  end

  def test_errors_have_types
    id = @client.enqueue("errors", "t")["id"]
    @client.request("POST", "/queues", { name: "errors-q" })
    [[Tenax::NotFound, 404, "not_found", -> { @client.job(NOBODY) }],
     [Tenax::BadRequest, 400, "bad_name", -> { @client.enqueue("a,b", "t") }],
     [Tenax::Unprocessable, 422, "unprocessable",
      -> { @client.enqueue("errors", "t", depends_on: [NOBODY]) }],
     [Tenax::NotFound, 404, "not_in_flight", -> { @client.request("POST", "/jobs/#{id}/success", {}) }],
     [Tenax::Conflict, 409, "conflict",
      -> { @client.request("POST", "/queues", { name: "errors-q" }) }]].each do |kind, status, code, ask|
      error = assert_raises(kind, &ask)
      assert_equal [status, code], [error.status, error.code]
      assert_includes error.message, code
    end
  end

  def test_what_is_not_json_is_refused_before_it_is_sent
    assert_raises(JSON::GeneratorError) { @client.enqueue("nan", "t", Float::NAN) }
  end

  def test_an_option_that_is_misspelt_is_refused
    { readyAt: "ready_at", retry_limt: "retry_limit" }.each do |wrong, right|
      error = assert_raises(Tenax::BadRequest) { @client.enqueue("misspelt", "t", nil, wrong => 1) }
      assert_match(/did you mean '#{right}'/, error.message)
    end
    assert_equal 0, count("misspelt")
  end

  def test_a_time_in_seconds_is_refused
    %i[ready_at deadline retain_until].each do |name|
      error = assert_raises(ArgumentError) { @client.enqueue("seconds", "t", nil, name => Time.now.to_i + 60) }
      assert_match(/#{name} is in milliseconds/, error.message)
    end
    @client.enqueue("seconds", "t", ready_at: 1)
  end

  def test_what_would_become_a_text_is_refused
    [Time.now, Object.new, [{ a: 1..2 }]].each do |payload|
      assert_raises(TypeError) { @client.enqueue("texts", "t", payload) }
    end
    assert_equal 0, count("texts")
  end

  def test_children_have_connections_of_their_own
    @client.enqueue("fork", "parent")
    children = Array.new(4) do |n|
      fork do
        made = Array.new(20) { @client.enqueue("fork", "child-#{n}") }
        exit!(made.count { |job| job["type"] != "child-#{n}" })
      end
    end
    assert_equal(["parent"] * 20, Array.new(20) { @client.enqueue("fork", "parent")["type"] })
    assert_equal([0] * 4, children.map { |child| Process.wait2(child)[1].exitstatus })
  end

  def test_an_enqueue_whose_answer_is_lost_is_repeated_and_adds_one_job
    drop("/jobs", 2)
    refute @client.enqueue("once", "t")["duplicate"]
    drop("/jobs/bulk")
    @client.enqueue_bulk([{ queue: "once", type: "t" }])
    assert_equal 2, count("once")
  end

  def test_an_idempotency_key_may_be_given
    ask = ->(payload) { @client.enqueue("key", "t", payload, idempotency_key: "ruby-1") }
    assert_equal ask.call(1), ask.call(1)
    error = assert_raises(Tenax::Unprocessable) { ask.call(2) }
    assert_equal "idempotency_key_reused", error.code
  end

  def test_without_keys_an_enqueue_is_not_repeated_blindly
    drop("/jobs")
    error = assert_raises(Tenax::ConnectionFailed) { @plain.enqueue("lost", "t") }
    assert_predicate error, :sent?
    assert_equal 1, count("lost")
  end

  def test_without_keys_what_the_server_recognises_is_repeated
    drop("/jobs", 2)
    assert @plain.enqueue("again", "t", alias: "again-1")["duplicate"]
    drop("/jobs/bulk")
    jobs = @plain.enqueue_bulk([{ queue: "again", type: "t", unique_key: "again-2", unique_while: "exists" }])
    assert jobs[0]["duplicate"]
    assert_equal 2, count("again")
  end

  def test_what_was_not_done_is_repeated
    @client.request("POST", "/proxy/refuse", { path: "/jobs", count: 2, status: 503, code: "busy" })
    refute @client.enqueue("busy", "t")["duplicate"]
  end

  def test_a_server_that_is_not_there_is_said_so
    taken = Socket.new(:INET, :STREAM) # bound, but not listening
    taken.bind(Addrinfo.tcp("127.0.0.1", 0))
    nobody = Tenax::Client.new("http://127.0.0.1:#{taken.local_address.ip_port}", retry_for: 0.3)
    error = assert_raises(Tenax::ConnectionFailed) { nobody.enqueue("q", "t") }
    refute_predicate error, :sent?
  ensure
    taken.close
  end

  def test_a_url_is_checked
    assert_raises(Tenax::Error) { Tenax::Client.new("ftp://localhost") }
    assert_raises(Tenax::Error) { Tenax::Client.new("no url") }
  end
end

# A server with TLS that asks for a token.
class TestSecure < Minitest::Test
  URL, CA, TOKEN_FILE = ENV.values_at("TEST_SECURE_URL", "TEST_CA_CERT", "TEST_TOKEN_FILE")

  def enqueue(url = URL, **options)
    client = Tenax::Client.new(url, **options)
    client.enqueue("secure", "t")
  ensure
    client&.close
  end

  def with_env(variables)
    before = ENV.to_h
    ENV.update(variables)
    yield
  ensure
    ENV.replace(before)
  end

  def test_with_a_ca_and_a_token_of_a_file
    assert enqueue(ca_cert: CA, token_file: TOKEN_FILE)["id"]
  end

  def test_as_the_environment_says
    [{ "TENAX_TOKEN" => File.read(TOKEN_FILE).strip }, { "TENAX_TOKEN_FILE" => TOKEN_FILE }].each do |given|
      with_env("TENAX_URL" => URL, "TENAX_CA_CERT" => CA, **given) { assert enqueue(nil)["id"] }
    end
  end

  def test_the_scheme_may_be_left_out
    client = Tenax::Client.new("#{ENV.fetch("TENAX_URL").delete_prefix("http://")}/")
    assert client.enqueue("bare", "t")["id"]
    client.close
    { "example.org" => "http://example.org:7890", "[::1]:1" => "http://[::1]:1",
      "localhost:1/prefix/" => "http://localhost:1/prefix" }.each do |given, meant|
      assert_equal meant, Tenax::Client.new(given).url
    end
    ["ftp://localhost", "http:/localhost", "http//localhost", "localhost:", "::1", ":7890", "localhost:x"].each do |url|
      error = assert_raises(Tenax::Error, url) { Tenax::Client.new(url) }
      assert_includes error.message, "or localhost:7890"
    end
  end

  def test_without_the_ca_it_is_not_trusted
    error = assert_raises(Tenax::ConnectionFailed) { enqueue(token_file: TOKEN_FILE, retry_for: 0) }
    refute_predicate error, :sent?
  end

  def test_without_a_token_or_with_a_wrong_one
    { nil => "credentials_required", "tnx_wrong" => "bad_credentials" }.each do |token, code|
      error = assert_raises(Tenax::Unauthorized) { enqueue(ca_cert: CA, token: token) }
      assert_equal code, error.code
    end
  end

  def test_what_the_token_does_not_allow
    client = Tenax::Client.new(URL, ca_cert: CA, token_file: TOKEN_FILE)
    assert_raises(Tenax::Forbidden) { client.request("GET", "/tokens") }
  end

  def test_a_token_that_is_none_is_not_quoted
    error = assert_raises(Tenax::Error) { Tenax::Client.new(URL, token: "sec ret") }
    refute_includes error.message, "ret"
  end
end
