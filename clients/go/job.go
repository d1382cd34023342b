// SPDX-License-Identifier: Apache-2.0

package tenax

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	reportTimeout  = 10 * time.Second
	returnPauseMax = time.Minute // before a job that is given back again and again
)

// A Job is a run of a job, as its handler sees it. JobData is what the claim gave: the checkpoint is that
// of an earlier run.
//
// The handler's context is done when the work has become useless: the lease is lost, or the job was
// given back. Its deadline is the end of the time that the run may take, if that is limited. Stopping is closed before that, as soon as the worker is about to end.
type Job struct {
	JobData
	client   *Client
	stopping chan struct{}
	cancel   context.CancelFunc
	started  time.Time
	limit    time.Time // of a run that may take only so long, as are:
	endLimit context.CancelFunc
	timer    *time.Timer

	mu        sync.Mutex
	leaseEnd  time.Time
	lost      bool
	stopped   bool
	concluded bool // it is decided how the run ends
}

// Decode reads the payload.
func (j *Job) Decode(to any) error { return json.Unmarshal(j.Payload, to) }

// Stopping is closed when the worker is about to end. Finish soon, or save a checkpoint and return
// ErrGiveBack.
func (j *Job) Stopping() <-chan struct{} { return j.stopping }

// Lost says that the run is over for the server: its lease ran out, or the job was canceled or deleted.
func (j *Job) Lost() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lost
}

// Progress says how far the work is, from 0 to 1. It is lost if the server cannot be reached just now.
// ErrLeaseLost: the run is over.
func (j *Job) Progress(ctx context.Context, value float64, note string) error {
	progress := map[string]any{"value": value}
	addText(progress, "note", note)
	err := j.say(ctx, map[string]any{"progress": progress})
	var broken *ConnectionError
	if errors.As(err, &broken) {
		return nil // the next one says more
	}
	return err
}

// Save saves a checkpoint of at most 64 KiB: it is on the server's disk when Save returns nil. It tries
// as long as the lease lasts. ErrLeaseLost: the run is over.
func (j *Job) Save(ctx context.Context, checkpoint any) error {
	for tries := 0; ; tries++ {
		err := j.say(ctx, map[string]any{"checkpoint": checkpoint})
		var broken *ConnectionError
		if !errors.As(err, &broken) {
			return err
		}
		select {
		case <-ctx.Done():
			if j.isOver() {
				return fmt.Errorf("job %s: %w", j.ID, ErrLeaseLost)
			}
			return ctx.Err()
		case <-time.After(backoff(tries, backoffMax)):
		}
	}
}

// say is one try; an error that says that the run is over makes it lost.
func (j *Job) say(ctx context.Context, body map[string]any) error {
	if j.isOver() {
		return fmt.Errorf("job %s: %w", j.ID, ErrLeaseLost)
	}
	err := j.post(ctx, "progress", body, nil)
	if errors.Is(err, ErrStaleToken) || errors.Is(err, ErrNotFound) {
		j.lose()
		return fmt.Errorf("job %s: %w: %v", j.ID, ErrLeaseLost, err)
	}
	if errors.Is(err, ErrServer) {
		return &ConnectionError{true, err}
	}
	return err
}

// isOver says that nothing more can be said of the run.
func (j *Job) isOver() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lost || j.concluded
}

func (j *Job) post(ctx context.Context, verb string, body map[string]any, answer any) error {
	body["token"] = j.Token
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}
	text, err := j.client.reports.report(ctx, j.ID, verb, content)
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(text, answer)
}

// conclude says whether the caller is the one who may say how the run ended.
func (j *Job) conclude() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	isFirst := !j.lost && !j.concluded
	j.concluded = true
	return isFirst
}

// lose says whether it has changed anything: once a report is under way its answer counts, not that of a
// renewal which came later.
func (j *Job) lose() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.lost || j.concluded {
		return false
	}
	j.lost = true
	j.cancel()
	return true
}

// pause is how long it waits if it is given back without a time.
func (j *Job) pause() time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	before := int(j.Run) - int(j.Attempts) // runs that were no failures
	if before <= 0 || j.stopped {
		return 0
	}
	if before > 10 {
		return returnPauseMax
	}
	return 100 * time.Millisecond << (before - 1)
}

func (j *Job) stop() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.stopped {
		j.stopped = true
		close(j.stopping)
	}
}

func (j *Job) leased() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.leaseEnd
}

func (j *Job) renewed(end time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.leaseEnd = end
}
