// SPDX-License-Identifier: Apache-2.0

package tenax

// What comes up while a request is under way goes with the next one.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// A rig is a server that answers when the test says so.
type rig struct {
	*testing.T
	*Client
	asked chan asked
}

type asked struct {
	path, body string
	answer     chan said
}

type said struct {
	status int
	text   string
}

type heard struct {
	answer string
	err    error
}

func newRig(t *testing.T) *rig {
	r := &rig{T: t, asked: make(chan asked, 100)}
	closing := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		a := asked{req.URL.Path, string(body), make(chan said, 1)}
		r.asked <- a
		select {
		case s := <-a.answer:
			if s.status == 0 {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(s.status)
			_, _ = io.WriteString(w, s.text)
		case <-closing:
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(closing) })
	client, err := NewClient(Options{URL: server.URL, Token: "t", Log: log.New(io.Discard, "", 0)})
	must(t, err)
	client.reports.together.slow = time.Hour // unless a test says otherwise
	r.Client = client
	return r
}

// report sends one; it waits or is under way when this returns.
func (r *rig) report(id, outcome string) chan heard {
	before := r.isWaiting() + len(r.asked)
	to := make(chan heard, 1)
	go func() {
		text, err := r.reports.report(background, id, outcome, []byte(`{"token":"t`+id+`"}`))
		to <- heard{string(text), err}
	}()
	for r.isWaiting()+len(r.asked) == before {
		time.Sleep(time.Millisecond)
	}
	return to
}

func (r *rig) isWaiting() int {
	t := &r.reports.together
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting)
}

func (r *rig) next(path string) asked {
	r.Helper()
	a := <-r.asked
	if a.path != path {
		r.Fatalf("%s was asked, not %s", a.path, path)
	}
	return a
}

// two has three reports, of which two are under way together.
func (r *rig) two() (a asked, b, c chan heard) {
	first := r.report("a", "success")
	one := r.next("/jobs/a/success")
	b, c = r.report("b", "success"), r.report("c", "success")
	one.answer <- said{204, ""}
	if h := <-first; h.err != nil || h.answer != "{}" {
		r.Fatal(h)
	}
	a = r.next("/jobs/reports")
	if want := `{"reports":[{"id":"b","outcome":"success","token":"tb"},{"id":"c","outcome":"success","token":"tc"}]}`; a.body != want {
		r.Fatal(a.body)
	}
	return a, b, c
}

func TestEachOfManyReportsHasItsOwnAnswer(t *testing.T) {
	r := newRig(t)
	a, b, c := r.two()
	a.answer <- said{200, `{"reports":[{"id":"b","reason":"x"},{"id":"c"}]}`}
	if h := <-b; h.err != nil || h.answer != `{"id":"b","reason":"x"}` {
		t.Fatal(h)
	}
	if h := <-c; h.err != nil || h.answer != `{"id":"c"}` {
		t.Fatal(h)
	}
}

func TestWhatIsRefusedAmongManyHearsWhyByARequestOfItsOwn(t *testing.T) {
	r := newRig(t)
	a, b, c := r.two()
	a.answer <- said{422, `{"code":"unprocessable","error":"1","reports":[{"id":"b","code":"stale_token","error":"over"},{"id":"c"}]}`}
	if h := <-c; h.err != nil {
		t.Fatal(h)
	}
	r.next("/jobs/b/success").answer <- said{409, `{"code":"stale_token","error":"over"}`}
	if h := <-b; !errors.Is(h.err, ErrStaleToken) {
		t.Fatal(h)
	}
}

func TestAllReportsFailIfThereIsNoAnswer(t *testing.T) {
	r := newRig(t)
	a, b, c := r.two()
	a.answer <- said{}
	for _, to := range []chan heard{b, c} {
		var broken *ConnectionError
		if h := <-to; !errors.As(h.err, &broken) {
			t.Fatal(h)
		}
	}
	if len(r.asked) != 0 {
		t.Fatal("it was asked again")
	}
}

func TestReportsAreSentOneByOneIfAllAreRefusedOrOthersAnswer(t *testing.T) {
	for _, s := range []said{
		{400, `{"code":"bad_value","error":"reports[0]: no"}`}, {404, "<html>"}, {200, `{"reports":[]}`},
		{200, `{"reports":[{"id":"c"},{"id":"b"}]}`}, {404, `{"code":"no_such_path","error":"no"}`},
	} {
		r := newRig(t)
		a, b, c := r.two()
		a.answer <- s
		for i := 0; i < 2; i++ {
			one := <-r.asked
			answer := said{204, ""}
			if one.path == "/jobs/b/success" {
				answer = said{400, `{"code":"bad_value","error":"no"}`}
			}
			one.answer <- answer
		}
		if h := <-b; !errors.Is(h.err, ErrBadRequest) {
			t.Fatal(s, h)
		}
		if h := <-c; h.err != nil {
			t.Fatal(s, h)
		}
		if r.reports.isUnknown() != strings.Contains(s.text, "no_such_path") {
			t.Fatal(s)
		}
	}
}

func TestARequestOfManyReportsIsBounded(t *testing.T) {
	it := together{}
	for i := 0; i < 1500; i++ {
		it.waiting = append(it.waiting, &call{})
	}
	for i := 0; i < 5; i++ {
		it.waiting = append(it.waiting, &call{content: make([]byte, 200000)})
	}
	for _, want := range []int{1000, 502, 2, 1, 0} {
		if got := len(it.take()); got != want {
			t.Fatalf("%d, not %d", got, want)
		}
	}
}

func TestAReleaseWaitsForNoReport(t *testing.T) {
	r := newRig(t)
	r.report("a", "success")
	r.next("/jobs/a/success")
	r.report("b", "release")
	r.next("/jobs/b/release")
}

func TestNoReportWaitsForARequestThatHangs(t *testing.T) {
	r := newRig(t)
	r.reports.together.slow = 20 * time.Millisecond
	r.report("a", "success")
	r.next("/jobs/a/success")
	b := r.report("b", "success")
	r.next("/jobs/b/success").answer <- said{204, ""}
	if h := <-b; h.err != nil {
		t.Fatal(h)
	}
}

func TestAReportEndsWithItsContext(t *testing.T) {
	r := newRig(t)
	r.report("a", "success")
	ctx, cancel := context.WithCancel(background)
	cancel()
	if _, err := r.reports.report(ctx, "b", "progress", []byte(`{"token":"t"}`)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestManyCallersEnqueueTogetherAndEachJobIsThereOnce(t *testing.T) {
	b := newBench(t)
	var before, after struct{ Count int }
	must(t, b.Do(background, "GET", "/proxy/count?path=/jobs/bulk", nil, &before))
	drop(t, b.Client, "/jobs/bulk", 2) // with the same key again
	const count = 200
	var all sync.WaitGroup
	var jobs [count]*JobData
	var errs [count]error
	for i := 0; i < count; i++ {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			priority := i
			if i%50 == 49 {
				priority = 70000
			}
			jobs[i], errs[i] = b.Enqueue(background, NewJob{Queue: b.queue, Type: "t", Payload: i, Priority: &priority})
		}(i)
	}
	all.Wait()
	for i, job := range jobs {
		var refused *APIError
		if i%50 == 49 {
			if !errors.As(errs[i], &refused) || refused.Where() != "priority" {
				t.Fatal(errs[i])
			}
			continue
		}
		must(t, errs[i])
		stored, err := b.Job(background, job.ID)
		must(t, err)
		if job.Priority != i || string(stored.Payload) != fmt.Sprint(i) {
			t.Fatalf("%d: %s %s", i, job.Raw, stored.Raw)
		}
	}
	must(t, b.Do(background, "GET", "/proxy/count?path=/jobs/bulk", nil, &after))
	if after.Count == before.Count {
		t.Fatal("each was sent alone")
	}
	must(t, b.Do(background, "GET", "/jobs/count?queue="+b.queue, nil, &after))
	if after.Count != count-4 {
		t.Fatalf("%d jobs", after.Count)
	}
}

// twoEnqueues are under way together, behind one that has been answered.
func (r *rig) twoEnqueues() (a asked, b, c chan heard) {
	r.enqueues.together.slow = time.Hour
	waiting := func() int {
		t := &r.enqueues.together
		t.mu.Lock()
		defer t.mu.Unlock()
		return len(t.waiting)
	}
	enqueue := func(name string) chan heard {
		to := make(chan heard, 1)
		before := waiting() + len(r.asked)
		go func() {
			job, err := r.Enqueue(background, NewJob{Queue: "q", Type: name})
			if err != nil {
				job = &JobData{}
			}
			to <- heard{job.ID, err}
		}()
		for waiting()+len(r.asked) == before {
			time.Sleep(time.Millisecond)
		}
		return to
	}
	first := enqueue("a")
	one := r.next("/jobs")
	b, c = enqueue("b"), enqueue("c")
	one.answer <- said{201, `{"id":"a"}`}
	if h := <-first; h.err != nil || h.answer != "a" {
		r.Fatal(h)
	}
	a = r.next("/jobs/bulk")
	if want := `{"jobs":[{"payload":null,"queue":"q","type":"b"},{"payload":null,"queue":"q","type":"c"}]}`; a.body != want {
		r.Fatal(a.body)
	}
	return a, b, c
}

func TestEachOfManyEnqueuesHasItsOwnError(t *testing.T) {
	r := newRig(t)
	a, b, c := r.twoEnqueues()
	a.answer <- said{400, `{"code":"bad_value","error":"jobs[0]: priority: no"}`}
	for i := 0; i < 2; i++ {
		one := r.next("/jobs")
		if strings.Contains(one.body, `"type":"b"`) {
			one.answer <- said{400, `{"code":"bad_value","error":"priority: no"}`}
		} else {
			one.answer <- said{201, `{"id":"c"}`}
		}
	}
	var refused *APIError
	if h := <-b; !errors.As(h.err, &refused) || refused.Where() != "priority" {
		t.Fatal(h)
	}
	if h := <-c; h.err != nil || h.answer != "c" {
		t.Fatal(h)
	}
}

func TestEnqueuesAreNotSentAgainIfNobodyKnowsWhatBecameOfThem(t *testing.T) {
	for _, s := range []said{{502, "<html>"}, {503, `{"code":"store_failed","error":"no"}`}} {
		r := newRig(t)
		r.retryFor = -1
		a, b, c := r.twoEnqueues()
		a.answer <- s
		for _, to := range []chan heard{b, c} {
			if h := <-to; h.err == nil || errors.Is(h.err, ErrBadRequest) {
				t.Fatal(s, h)
			}
		}
		if len(r.asked) != 0 || r.enqueues.isAlone != (s.status == 502) {
			t.Fatal(s)
		}
	}
}

func TestEachOfManyJobsHasItsOwnOutcome(t *testing.T) {
	b := newBench(t)
	jobs := make([]NewJob, 200)
	for i := range jobs {
		jobs[i] = NewJob{Queue: b.queue, Type: "t", Payload: i, RetryLimit: Int(0)}
	}
	added, err := b.EnqueueBulk(background, jobs)
	must(t, err)
	must(t, b.Do(background, "POST", "/proxy/drop", map[string]any{"path": "/jobs/reports"}, nil))
	must(t, b.Do(background, "POST", "/proxy/foreign", map[string]any{"path": "/jobs/reports", "status": 403}, nil))
	w := b.worker(func(ctx context.Context, job *Job) (any, error) {
		var n int
		if err := job.Decode(&n); err != nil {
			return nil, err
		}
		if err := job.Progress(ctx, 0.5, ""); err != nil {
			return nil, err
		}
		switch n % 4 {
		case 0:
			return map[string]int{"n": n}, nil
		case 1:
			return nil, &Failure{Message: "odd", Kill: true}
		case 2:
			return strings.Repeat("x", 70000), nil
		}
		return nil, &Failure{Message: "misspelt", More: map[string]any{"retryAt": 1}}
	})
	w.Concurrency = 100
	var before, after struct{ Count int }
	must(t, b.Do(background, "GET", "/proxy/count?path=/jobs/reports", nil, &before))
	must(t, w.Drain(background))
	must(t, b.Do(background, "GET", "/proxy/count?path=/jobs/reports", nil, &after))
	for n, job := range added {
		it := b.see(job.ID)
		var result struct {
			N       int
			Omitted string `json:"result_omitted"`
		}
		_ = json.Unmarshal(it.Result, &result)
		said := fmt.Sprint(it.Status, result.N, result.Omitted, it.Runs)
		isRight := len(it.Runs) == 1
		switch n % 4 {
		case 0:
			isRight = isRight && it.Status == "completed" && result.N == n
		case 2:
			isRight = isRight && strings.Contains(result.Omitted, "at most")
		case 3:
			isRight = isRight && strings.Contains(said, "did you mean 'retry_at'")
		default:
			isRight = isRight && it.Status == "dead"
		}
		if !isRight {
			t.Fatalf("%d: %s", n, said)
		}
	}
	if count := after.Count - before.Count; count < 3 || count >= 400 {
		t.Fatalf("%d requests", count)
	}
}
