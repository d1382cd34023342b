// SPDX-License-Identifier: Apache-2.0

package tenax

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/url"
	"strings"
	"time"
)

// A loop is one call of Run, in its goroutine; others tell it by channels what happened.
type loop struct {
	w     *Worker
	drain bool

	claimed  chan claimAnswer
	ended    chan *Job // its handler has returned, and what became of it is reported
	returned chan struct{}

	running    map[*Job]bool // handlers that have not returned
	left       map[*Job]bool // of these, those that are not waited for any more
	returning  int
	claiming   bool
	abortClaim context.CancelFunc
	claimID    string // of the last claim, if it had no answer: the next one repeats it
	claimAt    time.Time
	tries      int
	idle       bool // the last claim got nothing

	stops      int
	stopAt     time.Time
	withdrawAt time.Time
	claimEnd   time.Time
	err        error
}

type claimAnswer struct {
	jobs []JobData
	err  error
}

func newLoop(w *Worker, drain bool) *loop {
	return &loop{
		w: w, drain: drain,
		claimed:  make(chan claimAnswer, 1),
		ended:    make(chan *Job, w.Concurrency),
		returned: make(chan struct{}, 2*w.Concurrency+claimMax),
		running:  map[*Job]bool{}, left: map[*Job]bool{},
	}
}

func (l *loop) run(ctx context.Context) error {
	done := ctx.Done()
	for !l.done() {
		l.beginClaim()
		timer := time.NewTimer(l.pause())
		select {
		case answer := <-l.claimed:
			l.onClaimed(answer)
		case job := <-l.ended:
			delete(l.running, job)
			l.idle = false
		case <-l.returned:
			l.returning--
		case <-l.w.stops:
			l.stop()
		case <-done:
			done = nil // once is enough
			l.stop()
		case <-timer.C:
		}
		timer.Stop()
		if l.stops > 0 {
			l.endHandlers()
		}
	}
	return l.err
}

func (l *loop) done() bool {
	if l.stops > 2 {
		return true
	}
	if l.claiming || l.returning > 0 {
		return false
	}
	if l.stops > 0 {
		for job := range l.running {
			if !l.left[job] {
				return false
			}
		}
		return true
	}
	return l.drain && l.idle && len(l.running) == 0
}

func (l *loop) pause() time.Duration {
	if l.stops > 0 {
		return 50 * time.Millisecond
	}
	if wait := time.Until(l.claimAt); wait > 0 {
		return wait
	}
	return time.Hour
}

// --- claims ---

func (l *loop) beginClaim() {
	free := l.w.Concurrency - len(l.running)
	if l.stops > 0 || l.claiming || free <= 0 || time.Now().Before(l.claimAt) {
		return
	}
	if l.drain && l.idle && len(l.running) > 0 {
		return // until one of them has ended
	}
	wait := l.w.Wait
	if l.drain {
		wait = 0
	}
	l.claim(free, wait)
}

func (l *loop) claim(count int, wait time.Duration) {
	if count > claimMax {
		count = claimMax
	}
	if l.claimID == "" {
		l.claimID = newClaimID()
	}
	body := map[string]any{"count": count, "claim_id": l.claimID, "lease_ms": l.w.Lease.Milliseconds(),
		"wait_ms": wait.Milliseconds(), "worker": l.w.Name}
	if len(l.w.Queues) > 0 {
		body["queues"] = l.w.Queues
	}
	addText(body, "node", l.w.Node)
	if l.w.MaxRun > 0 {
		body["max_run_ms"] = l.w.MaxRun.Milliseconds()
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.claiming, l.abortClaim = true, cancel
	go func() {
		defer cancel()
		var answer struct{ Jobs []JobData }
		err := l.w.Client.ask(ctx, request{"POST", "/jobs/claim", body, false, wait + 15*time.Second, -1,
			"jobs"}, &answer)
		l.claimed <- claimAnswer{answer.Jobs, err}
	}()
}

// newClaimID is random also in a process that was forked or copied.
func newClaimID() string {
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	return hex.EncodeToString(id)
}

func (l *loop) onClaimed(answer claimAnswer) {
	l.claiming = false
	if answer.err != nil {
		l.onRefused(answer.err)
		return
	}
	l.tries, l.claimAt, l.claimID = 0, time.Time{}, ""
	l.idle = len(answer.jobs) == 0
	for _, data := range answer.jobs {
		job, ctx := l.w.begin(data)
		if l.stops > 0 {
			l.giveBack(job)
			continue
		}
		l.running[job] = true
		go func() {
			l.w.work(ctx, job)
			l.ended <- job
		}()
	}
}

func (l *loop) onRefused(err error) {
	if l.stops > 0 {
		return
	}
	var refused *APIError
	if errors.As(err, &refused) && refused.final() {
		l.err, l.claimID = err, ""
		l.stop()
		return
	}
	l.w.Log.Printf("no jobs for now: %v", err)
	most := backoffMax
	if isForeign(err) {
		most = foreignMax
	}
	l.claimAt = time.Now().Add(backoff(l.tries, most))
	l.tries++
}

// --- the end ---

func (l *loop) stop() {
	l.stops++
	l.stopAt = time.Now()
	if l.stops > 1 {
		return
	}
	l.stopAt = l.stopAt.Add(l.w.Grace)
	l.withdrawAt = time.Now()
	l.claimEnd = l.withdrawAt.Add(claimGrace)
	if free := l.w.Concurrency - len(l.running); l.claimID != "" && !l.claiming && free > 0 {
		l.claim(free, 0) // what it may have got is given back
	}
}

// endHandlers does what a stop makes due.
func (l *loop) endHandlers() {
	now := time.Now()
	if l.claiming && now.After(l.claimEnd) {
		// Jobs that it still gets are back when their leases are over. Its answer, an error, comes.
		l.abortClaim()
	} else if l.claiming {
		if !now.Before(l.withdrawAt) {
			// Again, as the claim may reach the server after its withdrawal.
			l.withdrawAt = now.Add(300 * time.Millisecond)
			go l.withdraw()
		}
		return // it would be handed what the handlers give back
	}
	for job := range l.running {
		job.stop()
	}
	if now.Before(l.stopAt) {
		return
	}
	for job := range l.running {
		if !l.left[job] {
			l.giveBack(job)
		}
	}
}

func (l *loop) withdraw() {
	path := "/jobs/claim?" + url.Values{"worker": {l.w.Name}}.Encode()
	path = strings.ReplaceAll(path, "+", "%20")
	err := l.w.Client.ask(context.Background(), request{"DELETE", path, nil, false, claimGrace, -1, ""}, nil)
	if err != nil {
		l.w.Log.Printf("the claim cannot be withdrawn: %v", err)
	}
}

// giveBack gives back a job; its handler may still be running, but is not heard any more.
func (l *loop) giveBack(job *Job) {
	job.stop()
	if job.Lost() {
		l.left[job] = true
		return
	}
	if !job.conclude() {
		return // it is being reported
	}
	l.left[job] = true
	l.returning++
	job.cancel()
	go func() {
		l.w.report(job, "release", map[string]any{})
		l.w.forget(job)
		l.returned <- struct{}{}
	}()
}
