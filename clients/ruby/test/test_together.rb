# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

# What comes up while a request is under way goes with the next one.

require "minitest/autorun"
require "tenax"

# A client whose requests are answered when the test says so.
class Rig
  attr_reader :asked

  def initialize(slow: 60)
    @asked = Thread::Queue.new
    @reports = Tenax.const_get(:ManyReports, false).new(self, slow: slow)
  end

  def request_content(_method, path, content, **)
    answer = Thread::Queue.new
    @asked << [path, JSON.parse(content), answer]
    said = answer.pop
    said.is_a?(Exception) ? raise(said) : said
  end

  # In a thread of its own, which waits by now.
  def report(id, outcome = "success")
    before = waiting
    thread = Thread.new do
      @reports.report(id, outcome, JSON.generate({ token: "t#{id}" }))
    rescue Tenax::Error => e
      e
    end
    Thread.pass until waiting != before || !@asked.empty?
    thread
  end

  def waiting
    @reports.instance_variable_get(:@here).instance_variable_get(:@waiting).size
  end
end

class TestTogether < Minitest::Test
  Refusal = Tenax::ApiError

  # Three reports, of which two are under way together.
  def two
    rig = Rig.new
    a = rig.report("a")
    path, body, answer = rig.asked.pop
    assert_equal ["/jobs/a/success", { "token" => "ta" }], [path, body]
    others = %w[b c].map { |id| rig.report(id) }
    answer << nil
    assert_empty a.value
    path, body, answer = rig.asked.pop
    assert_equal "/jobs/reports", path
    assert_equal(%w[b c].map { |id| { "id" => id, "outcome" => "success", "token" => "t#{id}" } }, body["reports"])
    [rig, answer, *others]
  end

  def test_each_has_its_own_answer
    _, answer, b, c = two
    answer << { "reports" => [{ "id" => "b", "reason" => "x" }, { "id" => "c" }] }
    assert_equal [{ "id" => "b", "reason" => "x" }, { "id" => "c" }], [b.value, c.value]
  end

  def test_what_is_refused_hears_why_by_a_request_of_its_own
    rig, answer, b, c = two
    answer << Refusal.of(422, { "code" => "unprocessable", "error" => "1 was refused", "reports" => [
                           { "id" => "b", "code" => "stale_token", "error" => "over" }, { "id" => "c" }
                         ] })
    assert_equal({ "id" => "c" }, c.value)
    path, _, answer = rig.asked.pop
    assert_equal "/jobs/b/success", path
    answer << Refusal.of(409, { "code" => "stale_token", "error" => "over" })
    assert_kind_of Tenax::StaleToken, b.value
  end

  def test_all_fail_if_there_is_no_answer
    rig, answer, b, c = two
    answer << Tenax::ConnectionFailed.new("cut", sent: true)
    [b, c].each { |one| assert_kind_of Tenax::ConnectionFailed, one.value }
    assert_empty rig.asked
  end

  def test_they_are_sent_one_by_one_if_all_are_refused_or_others_answer
    [Refusal.of(400, { "code" => "bad_value", "error" => "reports[0]: no" }),
     Refusal.of(404, { "code" => "no_such_path", "error" => "no" }),
     Tenax::ForeignAnswer.new("POST", "/jobs/reports", 404),
     { "reports" => [] }, { "reports" => [{ "id" => "c" }, { "id" => "b" }] }].each do |said|
      rig, answer, b, c = two
      answer << said
      answers = Array.new(2) { rig.asked.pop }.to_h { |path, _, to| [path, to] }
      answers.fetch("/jobs/b/success") << Refusal.of(400, { "code" => "bad_value", "error" => "no" })
      answers.fetch("/jobs/c/success") << { "reason" => "mine" }
      assert_kind_of Tenax::BadRequest, b.value
      assert_equal({ "reason" => "mine" }, c.value)
    end
  end

  def test_a_server_that_does_not_know_it_is_not_asked_again
    rig, answer, b, c = two
    answer << Refusal.of(405, { "code" => "method_not_allowed", "error" => "no" })
    2.times { rig.asked.pop.last << nil }
    [b, c].each { |one| assert_nil one.value }
    2.times { |i| rig.report("d#{i}") }
    assert_equal %w[/jobs/d0/success /jobs/d1/success], Array.new(2) { rig.asked.pop.first }.sort
  end

  def test_a_request_is_bounded_in_number_and_bytes
    sizes = Thread::Queue.new
    hold = Thread::Queue.new
    kind = Tenax.const_get(:Together, false)
    together = kind.new(slow: 60) { |calls| (sizes << calls.size) && hold.pop }
    add = lambda do |content|
      before = together.instance_variable_get(:@waiting).size
      Thread.new { together.add(kind::Call.new("x", "success", content)) }
      Thread.pass until together.instance_variable_get(:@waiting).size != before || !sizes.empty?
    end
    add.call("{}")
    assert_equal 1, sizes.pop
    1050.times { add.call("{}") }
    5.times { add.call("x" * 200_000) }
    4.times { hold << nil }
    assert_equal([1000, 52, 2, 1], Array.new(4) { sizes.pop })
  end

  def test_a_release_goes_alone_and_waits_for_none
    rig = Rig.new
    rig.report("a")
    rig.asked.pop
    rig.report("b", "release")
    assert_equal "/jobs/b/release", rig.asked.pop.first
  end

  def test_none_waits_for_a_request_that_hangs
    rig = Rig.new(slow: 0.05)
    rig.report("a")
    rig.asked.pop
    b = rig.report("b")
    path, _, answer = rig.asked.pop
    assert_equal "/jobs/b/success", path
    answer << nil
    assert_empty b.value
  end

  def test_others_are_sent_when_a_thread_that_waits_is_interrupted
    rig = Rig.new(slow: 0.05)
    rig.report("a")
    rig.asked.pop
    2.times { rig.report("b").kill.join }
    c = rig.report("c")
    path, _, answer = rig.asked.pop until path.to_s.end_with?("c/success", "reports")
    answer << { "reports" => [] } # also what the interrupted ones wanted to say may be among them
    rig.asked.pop.last << nil if path == "/jobs/reports"
    assert c.join(20)
  end

  def test_after_a_fork_nobody_waits_for_the_parents_requests
    rig = Rig.new
    rig.report("a")
    rig.asked.pop
    child = fork do
      rig.report("b")
      exit!(rig.asked.pop.first == "/jobs/b/success")
    end
    assert_predicate Process.wait2(child).last, :success?
  end

  # Two enqueues that are under way together: what is asked, the answer to it, and the callers.
  def two_enqueues
    asked = Thread::Queue.new
    enqueues = Tenax.const_get(:Enqueues, false).new(slow: 60) do |path, content|
      answer = Thread::Queue.new
      asked << [path, JSON.parse(content), answer]
      said = answer.pop
      said.is_a?(Exception) ? raise(said) : said
    end
    waiting = enqueues.instance_variable_get(:@here).instance_variable_get(:@waiting)
    send = lambda do |content|
      before = waiting.size + asked.size
      thread = Thread.new do
        enqueues.enqueue(content)
      rescue Tenax::Error => e
        e
      end
      Thread.pass until waiting.size + asked.size > before
      thread
    end
    a = send.call("1")
    path, body, answer = asked.pop
    assert_equal ["/jobs", 1], [path, body]
    others = %w[2 3].map(&send)
    answer << { "id" => "a" }
    assert_equal({ "id" => "a" }, a.value)
    path, body, answer = asked.pop
    assert_equal ["/jobs/bulk", { "jobs" => [2, 3] }], [path, body]
    [enqueues, asked, answer, *others]
  end

  def test_each_of_many_enqueues_has_its_own_answer_or_error
    _, _, answer, b, c = two_enqueues
    answer << { "jobs" => [{ "id" => "b" }, { "id" => "c" }] }
    assert_equal [{ "id" => "b" }, { "id" => "c" }], [b.value, c.value]
    _, asked, answer, b, c = two_enqueues
    answer << Refusal.of(400, { "code" => "bad_value", "error" => "jobs[0]: priority: no" })
    alone = Array.new(2) { asked.pop }.to_h { |path, body, to| [[path, body], to] }
    alone.fetch(["/jobs", 2]) << Refusal.of(400, { "code" => "bad_value", "error" => "priority: no" })
    alone.fetch(["/jobs", 3]) << { "id" => "c" }
    assert_equal "priority", b.value.where
    assert_equal({ "id" => "c" }, c.value)
  end

  def test_enqueues_are_not_sent_again_if_nobody_knows_what_became_of_them
    [Tenax::ConnectionFailed.new("cut", sent: true), Tenax::ForeignAnswer.new("POST", "/jobs/bulk", 502),
     Refusal.of(503, { "code" => "store_failed", "error" => "no" })].each do |error|
      enqueues, asked, answer, b, c = two_enqueues
      answer << error
      assert_equal [error, error], [b.value, c.value]
      assert_empty asked
      assert_equal !error.is_a?(Tenax::ForeignAnswer), enqueues.instance_variable_get(:@answered)
    end
  end

  def test_many_callers_enqueue_together_and_each_job_is_there_once
    client = Tenax::Client.new
    count = -> { client.request("GET", "/proxy/count?path=/jobs/bulk")["count"] }
    before = count.call
    client.request("POST", "/proxy/drop", { path: "/jobs/bulk", count: 2 }) # with the same key again
    threads = Array.new(60) do |n|
      Thread.new do
        client.enqueue(name, "t", n, priority: n % 30 == 29 ? 70_000 : n)
      rescue Tenax::BadRequest => e
        e.where
      end
    end
    threads.map(&:value).each_with_index do |job, n|
      next assert_equal "priority", job if n % 30 == 29

      assert_equal [n, n], [job["priority"], client.job(job["id"])["payload"]]
    end
    assert_equal 58, client.request("GET", "/jobs/count?queue=#{name}")["count"]
    assert_operator count.call, :>, before
  ensure
    client&.close
  end

  def test_each_of_many_jobs_has_its_own_outcome
    client = Tenax::Client.new
    jobs = client.enqueue_bulk((0...100).map { |n| { queue: name, type: "t", payload: n, retry_limit: 0 } })
    client.request("POST", "/proxy/drop", { path: "/jobs/reports", count: 1 })
    client.request("POST", "/proxy/foreign", { path: "/jobs/reports", status: 403 })
    count = -> { client.request("GET", "/proxy/count?path=/jobs/reports")["count"] }
    before = count.call
    Tenax::Worker.new(client, name, log: Logger.new(nil), concurrency: 50) do |job|
      job.progress(0.5)
      case job.payload % 4
      when 0 then { n: job.payload }
      when 1 then raise Tenax::Failure.new("odd", kill: true)
      when 2 then "x" * 70_000
      else raise Tenax::Failure.new("misspelt", retryAt: 1)
      end
    end.run(drain: true)
    jobs.map { |job| client.job(job["id"], runs: true) }.each_with_index { |job, n| check(job, n) }
    assert_includes 3...200, count.call - before
  ensure
    client&.close
  end

  def check(job, number)
    assert_equal 1, job["runs"].size
    case number % 4
    when 0 then assert_equal ["completed", { "n" => number }], job.values_at("status", "result")
    when 1 then assert_equal "dead", job["status"]
    when 2 then assert_match(/at most/, job["result"]["result_omitted"])
    else assert_match(/misspelt .*did you mean 'retry_at'/, job["runs"][0]["message"])
    end
  end
end
