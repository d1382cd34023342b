// SPDX-License-Identifier: Apache-2.0

package tenax

// The worker's loop, against the server of TENAX_URL, which is behind a proxy that loses answers.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// A bench is a client and a queue of a test's own.
type bench struct {
	*testing.T
	*Client
	queue string
}

func newBench(t *testing.T) *bench {
	return &bench{t, newClient(t, Options{}), t.Name()}
}

func (b *bench) add(job NewJob) string {
	b.Helper()
	job.Queue = b.queue
	if job.Type == "" {
		job.Type = "t"
	}
	added, err := b.Enqueue(background, job)
	must(b.T, err)
	return added.ID
}

func (b *bench) worker(handler Handler) *Worker {
	return &Worker{Client: b.Client, Queues: []string{b.queue}, Handler: handler,
		Log: log.New(io.Discard, "", 0)}
}

func (b *bench) drain(handler Handler) {
	b.Helper()
	must(b.T, b.worker(handler).Drain(background))
}

type seen struct {
	JobData
	Runs []struct {
		Worker, Outcome, Message, Culprit, Category, Subcategory, Reason string
		ErrorType                                                        string `json:"error_type"`
		ExitCode                                                         *int   `json:"exit_code"`
		TerminationMessage                                               string `json:"termination_message"`
		RunMS                                                            *int   `json:"run_ms"`
		EndedAt                                                          int64  `json:"ended_at"`
	}
}

func (b *bench) see(id string) seen {
	b.Helper()
	var s seen
	must(b.T, b.Do(background, "GET", "/jobs/"+id+"?runs=true", nil, &s.JobData))
	must(b.T, json.Unmarshal(s.Raw, &struct{ Runs any }{&s.Runs}))
	return s
}

func nothing(context.Context, *Job) (any, error) { return nil, nil }

func TestARunTakesNoLongerThanItMay(t *testing.T) {
	b := newBench(t)
	ids := []string{b.add(NewJob{RetryLimit: Int(0), MaxRun: 500 * time.Millisecond}), b.add(NewJob{RetryLimit: Int(0)})}
	var limits []int64
	w := b.worker(func(ctx context.Context, job *Job) (any, error) {
		limits = append(limits, job.MaxRunMS)
		if _, limited := ctx.Deadline(); !limited {
			t.Error("the context has no deadline")
		}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	w.MaxRun, w.Lease = 600*time.Millisecond, time.Second
	must(t, w.Drain(background))
	same(t, "the limits", limits, []int64{500, 600})
	for _, id := range ids {
		job := b.see(id)
		for job.Status == "in_flight" {
			job = b.see(id)
		}
		same(t, "the end", []string{job.Status, job.Runs[0].Culprit}, []string{"dead", "deadline"})
	}
}

func TestAResultIsKept(t *testing.T) {
	b := newBench(t)
	var ids []string
	for n := 0; n < 5; n++ {
		ids = append(ids, b.add(NewJob{Payload: n}))
	}
	w := b.worker(func(ctx context.Context, job *Job) (any, error) {
		var n int
		err := job.Decode(&n)
		return map[string]int{"twice": 2 * n}, err
	})
	w.Concurrency, w.Name = 3, "w-results"
	must(t, w.Drain(background))
	for n, id := range ids {
		job := b.see(id)
		same(t, "the job", []any{job.Status, job.Result, job.Runs[0].Worker},
			[]any{"completed", map[string]int{"twice": 2 * n}, "w-results"})
	}
}

func TestHandlersRunSideBySide(t *testing.T) {
	b := newBench(t)
	var here sync.WaitGroup
	for n := 0; n < 3; n++ {
		b.add(NewJob{})
		here.Add(1)
	}
	w := b.worker(func(ctx context.Context, job *Job) (any, error) {
		here.Done()
		here.Wait()
		return nil, nil
	})
	w.Concurrency = 3
	must(t, w.Drain(background))
}

func TestTypesHaveHandlers(t *testing.T) {
	b := newBench(t)
	known, unknown := b.add(NewJob{Type: "known"}), b.add(NewJob{Type: "unknown", RetryLimit: Int(0)})
	b.drain(Mux{"known": func(context.Context, *Job) (any, error) { return "done", nil }}.Work)
	same(t, "the result", b.see(known).Result, "done")
	same(t, "the other", b.see(unknown).Runs[0].ErrorType, "NoHandler")
}

func TestAnErrorIsAFailure(t *testing.T) {
	b := newBench(t)
	id := b.add(NewJob{RetryLimit: Int(0)})
	b.drain(func(context.Context, *Job) (any, error) { return nil, fmt.Errorf("no: %w", io.EOF) })
	job := b.see(id)
	same(t, "the job", []any{job.Status, job.Runs[0].Message, job.Runs[0].ErrorType, *job.Runs[0].RunMS >= 0},
		[]any{"dead", "no: EOF", "*fmt.wrapError", true})
}

func TestAPanicIsAFailure(t *testing.T) {
	b := newBench(t)
	id := b.add(NewJob{RetryLimit: Int(0)})
	b.drain(func(context.Context, *Job) (any, error) { panic("oh") })
	same(t, "the type", b.see(id).Runs[0].ErrorType, "panic")
	var answer struct{ Errors []struct{ Backtrace string } }
	must(t, b.Do(background, "GET", "/jobs/"+id+"/errors", nil, &answer))
	if !strings.Contains(answer.Errors[0].Backtrace, "worker_test.go") {
		t.Fatal(answer)
	}
}

func TestACommandsExitCodeIsReported(t *testing.T) {
	b := newBench(t)
	id := b.add(NewJob{RetryLimit: Int(0)})
	b.drain(func(context.Context, *Job) (any, error) {
		return nil, exec.Command("sh", "-c", "exit 75").Run()
	})
	same(t, "the code", b.see(id).Runs[0].ExitCode, 75)
}

func TestAFailureSaysWhatIsKnown(t *testing.T) {
	b := newBench(t)
	id := b.add(NewJob{})
	b.drain(func(context.Context, *Job) (any, error) {
		return nil, &Failure{Message: "no texture", ErrorType: "TextureError", ExitCode: Int(75),
			Category: "storage", Subcategory: "textures", Kill: true,
			More: map[string]any{"termination_message": "gone"}}
	})
	job := b.see(id)
	run := job.Runs[0]
	same(t, "the run", []any{job.Status, run.Message, run.ErrorType, run.ExitCode, run.Category,
		run.Subcategory, run.TerminationMessage},
		[]any{"dead", "no texture", "TextureError", 75, "storage", "textures", "gone"})
}

func TestAFailureSaysWhenToTryAgain(t *testing.T) {
	b := newBench(t)
	id := b.add(NewJob{RetryLimit: Int(0)})
	b.drain(func(context.Context, *Job) (any, error) {
		return nil, &Failure{Err: errors.New("later"), RetryAt: century}
	})
	job := b.see(id)
	same(t, "the job", []any{job.Status, job.ReadyAt, job.Runs[0].Message},
		[]any{"scheduled", 4102531200000, "later"})
}

func TestACheckpointIsHandedToTheNextRun(t *testing.T) {
	b := newBench(t)
	id := b.add(NewJob{})
	var told []any
	b.drain(func(ctx context.Context, job *Job) (any, error) {
		told = append(told, job.Run, job.Attempts, job.Checkpoint)
		if job.Run > 0 {
			return job.Checkpoint, nil
		}
		must(t, job.Progress(ctx, 0.4, "page 40"))
		must(t, job.Save(ctx, map[string]int{"page": 40}))
		return nil, &Failure{Message: "half way", RetryAt: time.UnixMilli(1)}
	})
	page := map[string]int{"page": 40}
	same(t, "what the runs were told", told, []any{0, 0, nil, 1, 1, page})
	same(t, "the result", b.see(id).Result, page)
}

func TestAJobThatIsGivenBackHasNotFailed(t *testing.T) {
	b := newBench(t)
	id := b.add(NewJob{})
	b.drain(func(ctx context.Context, job *Job) (any, error) {
		if job.Run == 0 {
			return nil, ErrGiveBack
		}
		return nil, nil
	})
	job := b.see(id)
	same(t, "the job", []any{job.Status, job.Attempts, job.Runs[0].Outcome, job.Runs[1].Outcome},
		[]any{"completed", 0, "returned", "completed"})
}

func TestAJobMayBeGivenBackForLater(t *testing.T) {
	b := newBench(t)
	id := b.add(NewJob{})
	b.drain(func(context.Context, *Job) (any, error) {
		return nil, &GiveBack{Message: "no disk", ReadyAt: century}
	})
	job := b.see(id)
	same(t, "the job", []any{job.Status, job.ReadyAt, job.Attempts, job.Runs[0].Reason},
		[]any{"scheduled", 4102531200000, 0, "scheduled again: the worker gave it back: no disk"})
}

func TestATimeThatIsRefusedDoesNotKeepAJobFromItsQueue(t *testing.T) {
	b := newBench(t)
	id := b.add(NewJob{})
	b.drain(func(ctx context.Context, job *Job) (any, error) {
		if job.Run == 0 {
			return nil, &GiveBack{ReadyAt: time.UnixMilli(-1)}
		}
		return nil, nil
	})
	job := b.see(id)
	same(t, "the runs", []any{job.Runs[0].Outcome, job.Runs[1].Outcome}, []any{"returned", "completed"})
}

func TestATraceGoesOn(t *testing.T) {
	b := newBench(t)
	trace := "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	var told []string
	b.add(NewJob{Type: "first", Traceparent: trace, Tracestate: "a=1"})
	b.drain(func(ctx context.Context, job *Job) (any, error) {
		told = append(told, job.Traceparent, job.Tracestate)
		if job.Type == "first" {
			b.add(NewJob{Type: "second", Traceparent: job.Traceparent})
		}
		return nil, nil
	})
	same(t, "what the runs were told", told, []string{trace, "a=1", trace, ""})
}

func TestAReportWhoseAnswerIsLostIsRepeated(t *testing.T) {
	b := newBench(t)
	good, bad := b.add(NewJob{}), b.add(NewJob{Type: "bad", RetryLimit: Int(0)})
	drop(t, b.Client, "/jobs/"+good+"/success", 2)
	drop(t, b.Client, "/jobs/"+bad+"/failure", 2)
	b.drain(func(ctx context.Context, job *Job) (any, error) {
		if job.Type == "bad" {
			return nil, errors.New("bad")
		}
		return 1, nil
	})
	one, two := b.see(good), b.see(bad)
	same(t, "the jobs", []any{one.Result, len(one.Runs), two.Status, two.Attempts},
		[]any{1, 1, "dead", 1})
}

type panics struct{}

func (panics) MarshalJSON() ([]byte, error) { panic("not this one") }

func TestAResultThatCannotBeKeptLeavesTheJobDone(t *testing.T) {
	b := newBench(t)
	results := []any{strings.Repeat("x", 70000), func() {}, math.NaN(), panics{}, map[string]any{"a": make(chan int)}}
	ids := make([]string, len(results))
	for i := range results {
		ids[i] = b.add(NewJob{Payload: i})
	}
	var said strings.Builder
	w := b.worker(func(ctx context.Context, job *Job) (any, error) {
		var i int
		err := job.Decode(&i)
		return results[i], err
	})
	w.Log = log.New(&said, "", 0)
	must(t, w.Drain(background))
	for _, id := range ids {
		job := b.see(id)
		same(t, "the job", []any{job.Status, len(job.Runs)}, []any{"completed", 1})
		if !strings.Contains(string(job.Result), "result_omitted") {
			t.Errorf("the result is %s", job.Result)
		}
		same(t, "the warnings", strings.Count(said.String(), id), 1)
	}
}

func TestAJobThatIsGivenBackAgainComesAfterAPauseThatDoubles(t *testing.T) {
	b := newBench(t)
	id := b.add(NewJob{})
	for i := 0; i < 3; i++ {
		b.drain(func(context.Context, *Job) (any, error) { return nil, ErrGiveBack }) // until it waits
		job := b.see(id)
		last := len(job.Runs) - 1
		same(t, "the pause", []any{job.ReadyAt - job.Runs[last].EndedAt, job.Attempts}, []any{100 << (last - 1), 0})
		must(t, b.Do(background, "PATCH", "/jobs/"+id, map[string]any{"ready_at": nil}, nil))
	}
}

func TestAJobMayBeGivenBackForAWhile(t *testing.T) {
	b := newBench(t)
	id := b.add(NewJob{})
	b.drain(func(context.Context, *Job) (any, error) { return nil, &GiveBack{Delay: time.Hour} })
	job := b.see(id)
	same(t, "the job", []any{job.Status, job.ReadyAt - job.Runs[0].EndedAt}, []any{"scheduled", 3600000})
}

func TestLeasesAreRenewedByOneRequestForAll(t *testing.T) {
	b := newBench(t)
	var ids []string
	for n := 0; n < 4; n++ {
		ids = append(ids, b.add(NewJob{}))
	}
	asked := func() int {
		var answer struct{ Count int }
		must(t, b.Do(background, "GET", "/proxy/count?path=/jobs/renew", nil, &answer))
		return answer.Count
	}
	before, begun := asked(), time.Now()
	w := b.worker(func(context.Context, *Job) (any, error) {
		time.Sleep(9 * time.Second)
		return nil, nil
	})
	w.Concurrency, w.Lease = 4, 6*time.Second
	must(t, w.Drain(background))
	renewals, ticks := asked()-before, int(time.Since(begun)/(2*time.Second))
	if renewals < 3 || renewals > ticks+1 {
		t.Fatalf("%d renewals", renewals)
	}
	for _, id := range ids {
		job := b.see(id)
		same(t, "the runs", []any{len(job.Runs), job.Runs[0].Outcome}, []any{1, "completed"})
	}
}

func (b *bench) cancel(id string) {
	b.Helper()
	must(b.T, b.Do(background, "POST", "/jobs/"+id+"/cancel", nil, nil))
}

func TestAHandlerIsToldThatItsLeaseIsLost(t *testing.T) {
	b := newBench(t)
	id := b.add(NewJob{})
	var lost bool
	w := b.worker(func(ctx context.Context, job *Job) (any, error) {
		b.cancel(job.ID)
		select {
		case <-ctx.Done():
			lost = job.Lost()
		case <-time.After(30 * time.Second):
		}
		return nil, ctx.Err()
	})
	w.Lease = 600 * time.Millisecond
	must(t, w.Drain(background))
	same(t, "lost, and the end", []any{lost, b.see(id).Resolution}, []any{true, "canceled"})
}

func TestSavingTellsThatTheLeaseIsLost(t *testing.T) {
	b := newBench(t)
	b.add(NewJob{})
	b.drain(func(ctx context.Context, job *Job) (any, error) {
		b.cancel(job.ID)
		if err := job.Save(ctx, 1); !errors.Is(err, ErrLeaseLost) || !job.Lost() {
			t.Error(err)
		}
		return nil, ErrLeaseLost
	})
}

func TestStopWaitsForHandlersWithinTheGrace(t *testing.T) {
	b := newBench(t)
	id := b.add(NewJob{})
	var w *Worker
	w = b.worker(func(ctx context.Context, job *Job) (any, error) {
		w.Stop()
		<-job.Stopping()
		time.Sleep(200 * time.Millisecond)
		return "in time", ctx.Err()
	})
	must(t, w.Run(background))
	same(t, "the result", b.see(id).Result, "in time")
}

func TestAContextStopsAWorkerThatWaits(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithTimeout(background, 300*time.Millisecond)
	defer cancel()
	w := b.worker(nothing)
	w.Wait = 5 * time.Minute
	must(t, w.Run(ctx))
}

func TestAClaimThatFailsIsAskedAgain(t *testing.T) {
	b := newBench(t)
	id := b.add(NewJob{})
	for _, status := range []int{503, 200, 500} { // the second is an answer without jobs in it
		must(t, b.Do(background, "POST", "/proxy/refuse",
			map[string]any{"path": "/jobs/claim", "status": status}, nil))
	}
	b.drain(func(context.Context, *Job) (any, error) { return "done", nil })
	same(t, "the result", b.see(id).Result, "done")
}

func TestAClaimWhoseAnswerIsLostIsAskedAgain(t *testing.T) {
	b := newBench(t)
	id := b.add(NewJob{})
	drop(t, b.Client, "/jobs/claim", 2)
	b.drain(func(context.Context, *Job) (any, error) { return "done", nil })
	job := b.see(id)
	same(t, "the attempts", job.Attempts, 0)
	same(t, "the runs", len(job.Runs), 1)
	same(t, "the result", job.Result, "done")
}

func TestAClaimThatIsRefusedEndsTheLoop(t *testing.T) {
	b := newBench(t)
	b.queue = "not,a,name"
	if err := b.worker(nothing).Drain(background); !errors.Is(err, ErrBadRequest) {
		t.Fatal(err)
	}
}
