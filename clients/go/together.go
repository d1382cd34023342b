// SPDX-License-Identifier: Apache-2.0

package tenax

// What comes up while a request is under way travels with the next one. Nobody waits who is alone, and each
// caller has an answer or an error of its own.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"
)

const (
	togetherMost  = 1000        // in one request
	togetherBytes = 512 * 1024  // below what servers and proxies take
	togetherSlow  = time.Second // after which a request is not waited for any more
)

// A call is what a goroutine has to say, and what it hears.
type call struct {
	id, outcome string
	content     []byte        // of a request of its own
	done        chan struct{} // closed when it has one of these, or else is to be sent by itself:
	answer      json.RawMessage
	err         error
}

// together has calls that wait for each other, in their order. send sends several and sets what each hears.
type together struct {
	send    func(calls []*call)
	slow    time.Duration
	mu      sync.Mutex
	waiting []*call
	isBusy  bool // with a request that is waited for
}

func (t *together) add(ctx context.Context, c *call) error {
	c.done = make(chan struct{})
	t.mu.Lock()
	t.waiting = append(t.waiting, c)
	t.mu.Unlock()
	t.next()
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return &ConnectionError{true, ctx.Err()}
	}
}

func (t *together) next() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.isBusy && len(t.waiting) > 0 {
		t.isBusy = true
		go t.begin()
	}
}

// take: what comes up until its goroutine runs goes along; those that fit into one request.
func (t *together) take() []*call {
	t.mu.Lock()
	defer t.mu.Unlock()
	count, size := 0, 0
	for count < len(t.waiting) && count < togetherMost {
		size += len(t.waiting[count].content)
		if count > 0 && size > togetherBytes {
			break
		}
		count++
	}
	calls := t.waiting[:count:count]
	t.waiting = append([]*call(nil), t.waiting[count:]...)
	return calls
}

func (t *together) begin() {
	calls := t.take()
	var once sync.Once
	end := func() {
		once.Do(func() {
			t.mu.Lock()
			t.isBusy = false
			t.mu.Unlock()
		})
		t.next()
	}
	timer := time.AfterFunc(t.slow, end)
	if len(calls) > 0 { // else a request that was not waited for has taken them
		t.send(calls)
	}
	timer.Stop()
	for _, c := range calls {
		close(c.done)
	}
	end()
}

// reports of runs go alone by a request of their own, several by POST /jobs/reports.
type reports struct {
	c        *Client
	together together
	mu       sync.Mutex
	unknown  bool // to the server
}

func newReports(c *Client) *reports {
	r := &reports{c: c}
	r.together = together{send: r.send, slow: togetherSlow}
	return r
}

// report returns the answer to a report; content is its JSON, an object with a token at least.
func (r *reports) report(ctx context.Context, id, outcome string, content []byte) (json.RawMessage, error) {
	c := &call{id: id, outcome: outcome, content: content}
	// Of a release that is repeated, as its answer was lost, the server says that its run is over.
	if outcome == "release" || r.isUnknown() {
		return r.alone(ctx, c)
	}
	if err := r.together.add(ctx, c); err != nil {
		return nil, err
	}
	if c.answer != nil {
		return c.answer, nil
	}
	return r.alone(ctx, c)
}

func (r *reports) isUnknown() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unknown
}

func (r *reports) alone(ctx context.Context, c *call) (json.RawMessage, error) {
	answer := json.RawMessage("{}")
	err := r.c.ask(ctx, request{"POST", "/jobs/" + c.id + "/" + c.outcome, json.RawMessage(c.content), false,
		reportTimeout, -1, ""}, &answer)
	return answer, err
}

func (r *reports) send(calls []*call) {
	if len(calls) == 1 {
		calls[0].answer, calls[0].err = r.alone(context.Background(), calls[0])
		return
	}
	err := r.many(calls)
	var refused *APIError
	if errors.As(err, &refused) && (refused.Code == "no_such_path" || refused.Code == "method_not_allowed") {
		r.mu.Lock()
		r.unknown = true
		r.mu.Unlock()
	}
	if err == nil || isOfOne(err) || isForeign(err) { // some proxies do not know the path
		return
	}
	for _, c := range calls {
		c.err = err
	}
}

// isOfOne: the fault may be of one of many, of which each has to hear by itself.
func isOfOne(err error) bool {
	var refused *APIError
	return errors.As(err, &refused) && refused.final() && refused.Status != http.StatusUnauthorized
}

// many leaves those that are refused without an answer: they hear why by a request of their own.
func (r *reports) many(calls []*call) error {
	parts := make([][]byte, len(calls))
	for i, c := range calls {
		parts[i] = append([]byte(`{"id":"`+c.id+`","outcome":"`+c.outcome+`",`), c.content[1:]...)
	}
	body := append(append([]byte(`{"reports":[`), bytes.Join(parts, []byte(","))...), "]}"...)
	const path = "/jobs/reports"
	var answer struct{ Reports []json.RawMessage }
	err := r.c.ask(context.Background(), request{"POST", path, json.RawMessage(body), false, reportTimeout, -1, "reports"},
		&answer)
	var refused *APIError
	if errors.As(err, &refused) && refused.Status == 422 && refused.decode(&answer) == nil && answer.Reports != nil {
		err = nil // some were refused
	}
	if err != nil {
		return err
	}
	answers := make([]json.RawMessage, len(calls))
	foreign := &ConnectionError{true, &ForeignAnswer{http.StatusOK, "POST " + path}}
	if len(answer.Reports) != len(calls) {
		return foreign
	}
	for i, text := range answer.Reports {
		var one struct{ ID, Code string }
		if json.Unmarshal(text, &one) != nil || one.ID != calls[i].id {
			return foreign
		}
		if one.Code == "" {
			answers[i] = text
		}
	}
	for i, c := range calls {
		c.answer = answers[i]
	}
	return nil
}

// enqueues of plain jobs go alone by POST /jobs, several by POST /jobs/bulk.
type enqueues struct {
	c        *Client
	together together
	mu       sync.Mutex
	isAlone  bool // a bulk was not answered by Tenax
}

func newEnqueues(c *Client) *enqueues {
	e := &enqueues{c: c}
	e.together = together{send: e.send, slow: togetherSlow}
	return e
}

func (e *enqueues) enqueue(ctx context.Context, content []byte, answer any) error {
	e.mu.Lock()
	isAlone := e.isAlone
	e.mu.Unlock()
	c := &call{content: content}
	if !isAlone {
		if err := e.together.add(ctx, c); err != nil {
			return err
		}
		if c.answer != nil {
			return json.Unmarshal(c.answer, answer)
		}
	}
	return e.c.enqueue(ctx, "/jobs", content, false, answer)
}

func (e *enqueues) send(calls []*call) {
	ctx := context.Background()
	if len(calls) == 1 {
		calls[0].err = e.c.enqueue(ctx, "/jobs", calls[0].content, false, &calls[0].answer)
		return
	}
	parts := make([][]byte, len(calls))
	for i, c := range calls {
		parts[i] = c.content
	}
	const path = "/jobs/bulk"
	body := append(append([]byte(`{"jobs":[`), bytes.Join(parts, []byte(","))...), "]}"...)
	var answer struct{ Jobs []json.RawMessage }
	err := e.c.enqueue(ctx, path, body, false, &answer)
	if err == nil && len(answer.Jobs) != len(calls) {
		err = &ConnectionError{true, &ForeignAnswer{http.StatusOK, "POST " + path}}
	}
	if isForeign(err) { // nobody knows what became of these
		e.mu.Lock()
		e.isAlone = true
		e.mu.Unlock()
	}
	for i, c := range calls {
		if err == nil {
			c.answer = answer.Jobs[i]
		} else if !isOfOne(err) {
			c.err = err
		}
	}
}
