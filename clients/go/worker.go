// SPDX-License-Identifier: Apache-2.0

package tenax

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"
)

const (
	claimMax   = 1000             // jobs that one claim may ask for
	claimGrace = 2 * time.Second  // for the answer to a claim that was withdrawn
	foreignMax = 15 * time.Second // between claims that something in between answers
	traceMax   = 16000
)

// A Handler does a job. What it returns (JSON of at most 64 KiB) is the job's result, unless it is nil; what
// cannot be kept is replaced by a note. An
// error says how else the run ended: ErrGiveBack, *GiveBack, *Failure, or any other. A panic is a failure, too.
type Handler func(ctx context.Context, job *Job) (any, error)

// A Mux has handlers by type; use its Work as the handler.
type Mux map[string]Handler

// Work hands the job to the handler of its type; a job of an unknown type fails.
func (m Mux) Work(ctx context.Context, job *Job) (any, error) {
	handler := m[job.Type]
	if handler == nil {
		return nil, &Failure{Message: "this worker has no handler for the type " + job.Type,
			ErrorType: "NoHandler"}
	}
	return handler(ctx, job)
}

// A Worker runs a handler for each job of some queues, several of them at a time. Client, Queues and
// Handler are required; set them before it runs. It runs once.
type Worker struct {
	Client      *Client
	Queues      []string
	Handler     Handler
	Concurrency int           // how many handlers run side by side; 1 if 0, 10000 at most
	Lease       time.Duration // how long the server waits for a renewal, which comes after every third of it; 30 s if 0
	Grace       time.Duration // how long handlers may go on when the worker ends; 30 s if 0, negative: not at all
	Wait        time.Duration // how long a claim waits for a job; 10 s if 0
	MaxRun      time.Duration // how long a run may take, unless the job or its queue has a shorter limit; no limit if 0
	Name        string        // on record with every run; host and process id
	Node        string        // jobs that must avoid it are left to others; TENAX_NODE
	Log         *log.Logger   // the standard logger if nil

	once  sync.Once
	stops chan struct{}
	mu    sync.Mutex
	held  map[*Job]bool // whose end is not reported yet
}

func (w *Worker) prepare() {
	w.once.Do(func() {
		w.stops = make(chan struct{}, 3)
		w.held = map[*Job]bool{}
		if w.Concurrency == 0 {
			w.Concurrency = 1
		}
		w.Lease = orElse(w.Lease, 30*time.Second)
		w.Grace = orElse(w.Grace, 30*time.Second)
		w.Wait = orElse(w.Wait, 10*time.Second)
		if w.Name == "" {
			host, _ := os.Hostname()
			w.Name = fmt.Sprintf("%s-%d", host, os.Getpid())
		}
		w.Node = first(w.Node, os.Getenv("TENAX_NODE"))
		if w.Log == nil {
			w.Log = log.Default()
		}
	})
}

func orElse(d, other time.Duration) time.Duration {
	if d == 0 {
		return other
	}
	return d
}

// Run works until the context is done or Stop is called. Then it claims nothing more; handlers may go on
// for Grace, and what is not done then is given back. An *APIError: the server refuses to hand out jobs.
func (w *Worker) Run(ctx context.Context) error { return w.run(ctx, false) }

// Drain works until no job is ready and none runs, or until Run would end.
func (w *Worker) Drain(ctx context.Context) error { return w.run(ctx, true) }

// Stop has Run return; a second call ends the time of grace, a third one all waiting.
func (w *Worker) Stop() {
	w.prepare()
	select {
	case w.stops <- struct{}{}:
	default: // more cannot be said
	}
}

// StopOnSignals calls Stop for each SIGTERM and SIGINT, until the function that it returns is called.
func (w *Worker) StopOnSignals() (undo func()) {
	signals := make(chan os.Signal, 3)
	done := make(chan struct{})
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		for {
			select {
			case <-signals:
				w.Stop()
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}

func (w *Worker) run(ctx context.Context, drain bool) error {
	w.prepare()
	if w.Concurrency < 1 || w.Concurrency > 10000 {
		return errors.New("Concurrency must be from 1 to 10000")
	}
	renewing, cancel := context.WithCancel(context.Background())
	defer cancel()
	go w.renewAll(renewing)
	return newLoop(w, drain).run(ctx)
}

// --- runs ---

// begin makes a job of what a claim gave, and the context of its handler.
func (w *Worker) begin(data JobData) (*Job, context.Context) {
	ctx, cancel := context.WithCancel(context.Background())
	now := time.Now()
	job := &Job{JobData: data, client: w.Client, stopping: make(chan struct{}), cancel: cancel,
		started: now, leaseEnd: now.Add(w.Lease)}
	w.mu.Lock()
	w.held[job] = true
	w.mu.Unlock()
	if data.MaxRunMS > 0 {
		job.limit = now.Add(time.Duration(data.MaxRunMS) * time.Millisecond)
		ctx, job.endLimit = context.WithDeadline(ctx, job.limit)
		job.timer = time.AfterFunc(time.Until(job.limit), func() { w.overrun(job) })
	}
	return job, ctx
}

// overrun: the server ends the run by itself, and would refuse a report of it.
func (w *Worker) overrun(job *Job) {
	w.lose(job, fmt.Sprintf("it took longer than its max_run_ms, %d", job.MaxRunMS))
}

func (w *Worker) forget(job *Job) {
	w.mu.Lock()
	delete(w.held, job)
	w.mu.Unlock()
	if job.timer != nil {
		job.timer.Stop()
		job.endLimit()
	}
	job.cancel()
}

// work is the goroutine of a run.
func (w *Worker) work(ctx context.Context, job *Job) {
	verb, body := w.outcome(ctx, job)
	if job.timer != nil && !time.Now().Before(job.limit) {
		w.overrun(job)
	}
	if verb != "" && job.conclude() {
		w.report(job, verb, body)
	}
	w.forget(job)
}

// outcome is the verb of the report and its members; no verb: there is nothing to report.
func (w *Worker) outcome(ctx context.Context, job *Job) (verb string, body map[string]any) {
	result, err := w.call(ctx, job)
	switch {
	case err == nil && result == nil:
		return "success", map[string]any{}
	case err == nil:
		return "success", map[string]any{"result": w.storable(job, result)}
	case errors.Is(err, ErrGiveBack):
		told := &GiveBack{}
		errors.As(err, &told)
		return "release", told.members(job.pause())
	case errors.Is(err, ErrLeaseLost):
		return "", nil
	}
	body = failureOf(err).members()
	body["run_ms"] = time.Since(job.started).Milliseconds()
	return "failure", body
}

// storable is the result, or a note in its place: the work is done, and must not be done again for it.
func (w *Worker) storable(job *Job, result any) any {
	text, err := marshal(result)
	if err != nil {
		return w.omitted(job, err)
	}
	return text
}

// marshal is json.Marshal, also of what panics.
func marshal(v any) (text json.RawMessage, err error) {
	defer func() {
		if what := recover(); what != nil {
			err = fmt.Errorf("%v", what)
		}
	}()
	return json.Marshal(v)
}

type note struct {
	Omitted string `json:"result_omitted"`
}

func (w *Worker) omitted(job *Job, why error) note {
	w.Log.Printf("job %s (%s) has succeeded, but its result is not kept: %v", job.ID, job.Type, why)
	return note{why.Error()}
}

func (w *Worker) call(ctx context.Context, job *Job) (result any, err error) {
	defer func() {
		if what := recover(); what != nil {
			err = &Failure{Message: fmt.Sprint(what), ErrorType: "panic", Backtrace: trace()}
		}
	}()
	return w.Handler(ctx, job)
}

func trace() string {
	text := string(debug.Stack())
	if len(text) > traceMax {
		text = text[:traceMax]
	}
	return text
}

func failureOf(err error) *Failure {
	var told *Failure
	if errors.As(err, &told) {
		return told
	}
	failure := &Failure{Message: err.Error(), ErrorType: fmt.Sprintf("%T", err)}
	if failure.Message == "" {
		failure.Message = failure.ErrorType
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() >= 0 {
		failure.ExitCode = Int(exit.ExitCode())
	}
	return failure
}

// report says it until there is an answer, or the lease is over. The same may be said twice.
func (w *Worker) report(job *Job, verb string, body map[string]any) {
	for tries := 0; ; tries++ {
		var answer struct{ Reason string }
		err := job.post(context.Background(), verb, body, &answer)
		var refused *APIError
		var broken *ConnectionError
		switch {
		case err == nil:
			if verb == "failure" {
				w.Log.Printf("job %s (%s) failed: %v (%s)", job.ID, job.Type, body["message"], answer.Reason)
			}
			return
		case errors.Is(err, ErrStaleToken) || errors.Is(err, ErrNotFound):
			earlier := ""
			if tries > 0 {
				earlier = "; an earlier try may have arrived"
			}
			w.Log.Printf("job %s: the run was over when it was reported%s: %v", job.ID, earlier, err)
			return
		case errors.As(err, &refused) && refused.final(), !errors.As(err, &refused) &&
			!errors.As(err, &broken): // also what has no JSON
			w.reportRefusal(job, verb, body, err)
			return
		case tries > 0 && time.Now().After(job.leased()):
			w.Log.Printf("job %s: its lease ran out before the report: %v", job.ID, err)
			return
		}
		w.Log.Printf("job %s: the report of its %s is sent again: %v", job.ID, verb, err)
		time.Sleep(backoff(tries, backoffMax))
	}
}

// reportRefusal: a report that the server does not take becomes one of the same kind that it can take.
func (w *Worker) reportRefusal(job *Job, verb string, said map[string]any, err error) {
	if result, ok := said["result"]; ok && verb == "success" {
		if _, again := result.(note); !again {
			w.report(job, verb, map[string]any{"result": w.omitted(job, err)})
			return
		}
	}
	w.Log.Printf("job %s: the report of its %s is refused: %v", job.ID, verb, err)
	if verb == "release" { // better than when the lease is over
		if len(said) > 0 {
			w.report(job, verb, (&GiveBack{}).members(job.pause()))
		}
		return
	}
	message := "the report was refused: " + err.Error()
	if verb == "failure" { // what is not known by its members is known by its words
		message = fmt.Sprintf("%v (%s)", said["message"], message)
	}
	body := map[string]any{"token": job.Token, "error_type": "ReportRefused", "message": message}
	err = w.Client.ask(context.Background(), request{"POST", "/jobs/" + job.ID + "/failure", body, true,
		reportTimeout, w.Lease, ""}, nil)
	if err != nil {
		w.Log.Printf("job %s: nor is that: %v", job.ID, err)
	}
}

// --- leases ---

func (w *Worker) holds() []*Job {
	w.mu.Lock()
	defer w.mu.Unlock()
	var jobs []*Job
	for job := range w.held {
		if !job.Lost() {
			jobs = append(jobs, job)
		}
	}
	return jobs
}

func (w *Worker) renewAll(ctx context.Context) {
	tries := 0
	due := w.Lease / 3 // a job that is claimed meanwhile has its full lease
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(due):
		}
		now := time.Now()
		for _, job := range w.holds() {
			if now.After(job.leased()) {
				w.lose(job, "its lease ran out while the server did not answer")
			}
		}
		if err := w.renew(ctx, w.holds(), now); err != nil && ctx.Err() == nil {
			w.Log.Printf("leases cannot be renewed: %v", err)
			due = backoff(tries, backoffMax)
			tries++
			continue
		}
		tries, due = 0, w.Lease/3
	}
}

func (w *Worker) renew(ctx context.Context, held []*Job, sent time.Time) error {
	if len(held) == 0 {
		return nil
	}
	leases := make([]map[string]any, len(held))
	for i, job := range held {
		leases[i] = map[string]any{"id": job.ID, "token": job.Token}
	}
	timeout := w.Lease / 3
	if timeout < time.Second {
		timeout = time.Second
	}
	var answer struct {
		Jobs []struct {
			LeaseExpiresAt int64 `json:"lease_expires_at"`
			Code, Error    string
		}
	}
	body := map[string]any{"jobs": leases, "lease_ms": w.Lease.Milliseconds()}
	err := w.Client.ask(ctx, request{"POST", "/jobs/renew", body, false, timeout, -1, "jobs"}, &answer)
	var refused *APIError
	if errors.As(err, &refused) && refused.Status == 422 && refused.decode(&answer) == nil &&
		len(answer.Jobs) > 0 {
		err = nil // some were not renewed
	}
	if err != nil {
		return err
	}
	for i, renewed := range answer.Jobs {
		if i == len(held) {
			break
		}
		if renewed.LeaseExpiresAt > 0 {
			held[i].renewed(sent.Add(w.Lease))
		} else if isGone(renewed.Code) {
			w.lose(held[i], renewed.Error)
		}
	}
	return nil
}

// isGone: the server says that the run is over.
func isGone(code string) bool {
	switch code {
	case "stale_token", "stale_gang", "run_limit", "not_found", "not_in_flight":
		return true
	}
	return false
}

func (w *Worker) lose(job *Job, why string) {
	if job.lose() {
		w.Log.Printf("job %s is lost: %s", job.ID, why)
	}
}
