# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

# The worker's loop, against the server of TENAX_URL, which is behind a proxy that loses answers.

require "minitest/autorun"
require "stringio"
require "tenax"

class TestWorker < Minitest::Test
  QUIET = Logger.new(nil)

  def setup
    @client = Tenax::Client.new
    @queue = name
  end

  def teardown
    @client.close
  end

  def enqueue(payload = nil, type: "t", **options)
    @client.enqueue(@queue, type, payload, **options)["id"]
  end

  def drain(handlers = nil, **options, &handler)
    Tenax::Worker.new(@client, @queue, handlers, log: QUIET, **options, &handler).run(drain: true)
  end

  def get(id)
    @client.job(id, runs: true)
  end

  def test_a_result_is_kept
    ids = (0..4).map { |n| enqueue(n) }
    drain(concurrency: 3, name: "w-results") { |job| { twice: 2 * job.payload } }
    ids.each_with_index do |id, n|
      job = get(id)
      assert_equal ["completed", { "twice" => 2 * n }], job.values_at("status", "result")
      assert_equal "w-results", job["runs"][0]["worker"]
    end
  end

  def test_a_run_takes_no_longer_than_it_may
    ids = [enqueue(retry_limit: 0, max_run_ms: 500), enqueue(retry_limit: 0)]
    limits = []
    drain(max_run: 0.6, lease: 1) do |job|
      limits << job.max_run_ms
      sleep # for ever, and asks for nothing
    end
    assert_equal [500, 600], limits
    ids.each do |id|
      job = get(id)
      job = get(id) while job["status"] == "in_flight"
      assert_equal %w[dead deadline], [job["status"], job["runs"][0]["culprit"]]
    end
  end

  def test_handlers_run_side_by_side
    3.times { enqueue }
    lock = Mutex.new
    all = ConditionVariable.new
    here = 0
    drain(concurrency: 3) do
      lock.synchronize do
        here += 1
        all.broadcast if here == 3
        all.wait(lock, 20) until here == 3
      end
      nil
    end
    assert_equal 3, here
  end

  def test_types_have_handlers
    known = enqueue(type: "known")
    unknown = enqueue(type: "unknown", retry_limit: 0)
    drain({ "known" => ->(_) { "done" } })
    assert_equal "done", get(known)["result"]
    assert_equal "NoHandler", get(unknown)["runs"][0]["error_type"]
  end

  def test_an_exception_is_a_failure
    id = enqueue({}, retry_limit: 0)
    drain { |job| job.payload.fetch("missing") }
    job = get(id)
    assert_equal %w[dead KeyError], [job["status"], job["runs"][0]["error_type"]]
    assert_operator job["runs"][0]["run_ms"], :>=, 0
    error = @client.request("GET", "/jobs/#{id}/errors")["errors"][0]
    assert_includes error["backtrace"], "test_worker.rb"
  end

  def test_a_failure_says_what_is_known
    id = enqueue
    drain do
      raise Tenax::Failure.new("no texture", error_type: "TextureError", exit_code: 75, kill: true,
                                             category: "storage", subcategory: "textures",
                                             termination_message: "gone")
    end
    job = get(id)
    assert_equal "dead", job["status"]
    assert_equal ["no texture", "TextureError", 75, "storage", "textures", "gone"],
                 job["runs"][0].values_at("message", "error_type", "exit_code", "category", "subcategory",
                                          "termination_message")
  end

  def test_a_failure_says_when_to_try_again
    id = enqueue(retry_limit: 0)
    drain { raise Tenax::Failure.new("come back later", retry_at: Time.utc(2100, 1, 2)) }
    assert_equal ["scheduled", 4_102_531_200_000], get(id).values_at("status", "ready_at")
  end

  def test_an_exit_is_a_failure_with_its_code
    id = enqueue(retry_limit: 0)
    drain { exit 3 }
    assert_equal 3, get(id)["runs"][0]["exit_code"]
  end

  def test_a_message_of_another_encoding_is_reported
    id = enqueue(retry_limit: 0)
    drain { raise "caf\xE9".dup.force_encoding("BINARY") }
    assert_equal "caf\u{FFFD}", get(id)["runs"][0]["message"]
  end

  def test_a_checkpoint_is_handed_to_the_next_run
    seen = []
    id = enqueue
    drain do |job|
      seen << [job.run, job.attempts, job.checkpoint]
      next job.checkpoint["page"] if job.run.positive?

      job.progress(0.4, "page 40")
      assert_equal 0.4, @client.job(job.id)["progress"]["value"]
      job.save({ page: 40 })
      raise Tenax::Failure.new("half way", retry_at: 1)
    end
    assert_equal [[0, 0, nil], [1, 1, { "page" => 40 }]], seen
    assert_equal 40, get(id)["result"]
  end

  def test_a_job_that_is_given_back_has_not_failed
    id = enqueue
    drain { |job| raise Tenax::GiveBack if job.run.zero? }
    job = get(id)
    assert_equal ["completed", 0], job.values_at("status", "attempts")
    assert_equal(%w[returned completed], job["runs"].map { |run| run["outcome"] })
  end

  def test_a_job_may_be_given_back_for_later
    id = enqueue
    drain { raise Tenax::GiveBack.new("no disk", ready_at: Time.utc(2100, 1, 2)) }
    job = get(id)
    assert_equal ["scheduled", 4_102_531_200_000, 0], job.values_at("status", "ready_at", "attempts")
    assert_includes job["runs"][0]["reason"], "gave it back: no disk"
  end

  def test_a_time_that_is_refused_does_not_keep_a_job_from_its_queue
    id = enqueue
    drain { |job| raise Tenax::GiveBack.new(ready_at: "soon") if job.run.zero? }
    assert_equal(%w[returned completed], get(id)["runs"].map { |run| run["outcome"] })
  end

  def test_a_trace_goes_on
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    seen = []
    enqueue("first", traceparent: trace, tracestate: "a=1")
    drain do |job|
      seen << [job.traceparent, job.tracestate]
      enqueue("second", traceparent: job.traceparent) if job.payload == "first"
      nil
    end
    assert_equal [[trace, "a=1"], [trace, nil]], seen
  end

  def test_a_report_whose_answer_is_lost_is_repeated
    good = enqueue("good")
    bad = enqueue("bad", retry_limit: 0)
    { good => "success", bad => "failure" }.each do |id, verb|
      @client.request("POST", "/proxy/drop", { path: "/jobs/#{id}/#{verb}", count: 2 })
    end
    drain { |job| job.payload == "bad" ? raise("bad") : 1 }
    assert_equal [1, 1], [get(good)["result"], get(good)["runs"].size]
    assert_equal ["dead", 1], get(bad).values_at("status", "attempts")
  end

  def test_a_claim_whose_answer_is_lost_is_asked_again
    ids = [enqueue(retry_limit: 0), enqueue(retry_limit: 0)]
    @client.request("POST", "/proxy/drop", { path: "/jobs/claim", count: 2 })
    drain(concurrency: 2) { nil }
    ids.each do |id|
      job = get(id)
      assert_equal ["completed", 0, 1], [job["status"], job["attempts"], job["runs"].size]
    end
  end

  def test_a_result_that_cannot_be_kept_leaves_the_job_done
    circle = []
    circle << circle
    results = [Float::NAN, "\xff", Time.now, Object.new, { a: [Class] }, circle, "x" * 70_000]
    ids = results.each_index.map { |i| enqueue(i) }
    said = StringIO.new
    drain(log: Logger.new(said)) { |job| results[job.payload] }
    ids.each do |id|
      job = get(id)
      assert_equal(["completed", 1], [job["status"], job["runs"].size])
      refute_empty job["result"]["result_omitted"]
      assert_equal 1, said.string.lines.grep(/WARN.*#{id}/).size
    end
  end

  def test_a_failure_is_logged
    id = enqueue(retry_limit: 0)
    said = StringIO.new
    drain(log: Logger.new(said)) { raise "no such user" }
    assert_match(/WARN.*job #{id} .t. failed: no such user/, said.string)
  end

  def test_a_failure_with_a_mistake_is_known_by_its_words
    { { retryAt: 1 } => /no texture .*did you mean 'retry_at'/,
      { retry_at: Time.now.to_i } => /no texture .retry_at is in milliseconds/ }.each do |members, words|
      id = enqueue(retry_limit: 0)
      drain { raise Tenax::Failure.new("no texture", **members) }
      assert_match words, get(id)["runs"][0]["message"]
    end
  end

  def test_a_job_that_is_given_back_again_comes_after_a_pause_that_doubles
    id = enqueue
    3.times do
      drain { raise Tenax::GiveBack, "not now" } # until it waits
      job = get(id)
      runs = job["runs"]
      assert_equal([100 * 2**(runs.size - 2), 0], [job["ready_at"] - runs[-1]["ended_at"], job["attempts"]])
      @client.request("PATCH", "/jobs/#{id}", { ready_at: nil })
    end
  end

  def test_a_job_may_be_given_back_for_a_while
    id = enqueue
    drain { raise Tenax::GiveBack.new("no disk", delay: 3600) }
    job = get(id)
    assert_equal(["scheduled", 3_600_000], [job["status"], job["ready_at"] - job["runs"][0]["ended_at"]])
  end

  def test_leases_are_renewed_by_one_request_for_all
    ids = Array.new(4) { enqueue }
    asked = -> { @client.request("GET", "/proxy/count?path=/jobs/renew")["count"] }
    before = asked.call
    begun = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    drain(concurrency: 4, lease: 6) { sleep(9) }
    ticks = (Process.clock_gettime(Process::CLOCK_MONOTONIC) - begun) / 2
    assert_includes 3..(ticks + 1), asked.call - before
    ids.each { |id| assert_equal(["completed"], get(id)["runs"].map { |run| run["outcome"] }) }
  end

  def test_a_handler_is_told_that_its_lease_is_lost
    id = enqueue
    told = []
    drain(lease: 0.6) do |job|
      @client.request("POST", "/jobs/#{job.id}/cancel")
      job.wait(30)
    rescue Tenax::LeaseLost
      told << job.lost?
      raise
    end
    assert_equal [true], told
    assert_equal "canceled", get(id)["resolution"]
  end

  def test_saving_tells_that_the_lease_is_lost
    enqueue
    told = []
    drain do |job|
      @client.request("POST", "/jobs/#{job.id}/cancel")
      assert_raises(Tenax::LeaseLost) { job.save(1) }
      told << job.lost?
    end
    assert_equal [true], told
  end

  def test_stop_waits_for_handlers_within_the_grace
    id = enqueue
    worker = Tenax::Worker.new(@client, @queue, log: QUIET) do |job|
      worker.stop
      sleep(0.01) until job.stopping?
      sleep(0.2)
      "in time"
    end
    worker.run
    assert_equal "in time", get(id)["result"]
  end

  def test_a_claim_that_fails_is_asked_again
    id = enqueue
    [503, 200, 500].each do |status| # the second is an answer without jobs in it
      @client.request("POST", "/proxy/refuse", { path: "/jobs/claim", status: status })
    end
    drain { "done" }
    assert_equal "done", get(id)["result"]
  end

  def test_a_claim_that_is_refused_ends_the_loop
    assert_raises(Tenax::BadRequest) do
      Tenax::Worker.new(@client, "not,a,name") { nil }.run(drain: true)
    end
  end
end
