// SPDX-License-Identifier: Apache-2.0

package tenax

// Requests, against the server of TENAX_URL, which is behind a proxy that loses answers.

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var (
	background = context.Background()
	century    = time.Date(2100, 1, 2, 0, 0, 0, 0, time.UTC)
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	a, err := json.Marshal(got)
	must(t, err)
	b, err := json.Marshal(want)
	must(t, err)
	if string(a) != string(b) {
		t.Fatalf("%s is %s, not %s", what, a, b)
	}
}

func newClient(t *testing.T, o Options) *Client {
	t.Helper()
	client, err := NewClient(o)
	must(t, err)
	t.Cleanup(client.Close)
	return client
}

func drop(t *testing.T, c *Client, path string, count int) {
	t.Helper()
	must(t, c.Do(background, "POST", "/proxy/drop", map[string]any{"path": path, "count": count}, nil))
}

func count(t *testing.T, c *Client, queue string) int {
	t.Helper()
	var answer struct{ Count int }
	must(t, c.Do(background, "GET", "/jobs/count?queue="+queue, nil, &answer))
	return answer.Count
}

func TestOptionsReachTheServer(t *testing.T) {
	c := newClient(t, Options{})
	job, err := c.Enqueue(background, NewJob{Queue: "options", Type: "t", Payload: []any{1, "ü", nil},
		Priority: Int(7), ReadyAt: century, RetryLimit: Int(0), Alias: "options-1",
		Backoff: &Backoff{1, 2, 3}, More: map[string]any{"when_no_policy": "fail"}})
	must(t, err)
	got, err := c.Job(background, "alias:options-1")
	must(t, err)
	same(t, "the job", []any{got.ID, got.Payload, got.Priority, got.ReadyAt, got.Status},
		[]any{job.ID, []any{1, "ü", nil}, 7, 4102531200000, "scheduled"})
	var raw map[string]any
	must(t, json.Unmarshal(got.Raw, &raw))
	same(t, "the rest", []any{raw["retry_limit"], raw["backoff"], raw["when_no_policy"], raw["unique_key"]},
		[]any{0, Backoff{1, 2, 3}, "fail", nil})
}

func TestAUniqueKeyFindsTheJobThatIsThere(t *testing.T) {
	c := newClient(t, Options{})
	first, err := c.Enqueue(background, NewJob{Queue: "unique", Type: "t", UniqueKey: "k"})
	must(t, err)
	again, err := c.Enqueue(background, NewJob{Queue: "unique", Type: "t", UniqueKey: "k"})
	must(t, err)
	same(t, "the other", []any{first.Duplicate, again.Duplicate, again.ID}, []any{false, true, first.ID})
}

func TestBulkIsAllOrNone(t *testing.T) {
	c := newClient(t, Options{})
	jobs, err := c.EnqueueBulk(background, []NewJob{{Queue: "bulk", Type: "t", Payload: 0},
		{Queue: "bulk", Type: "t", Payload: 1}})
	must(t, err)
	for i, job := range jobs {
		got, err := c.Job(background, job.ID)
		must(t, err)
		same(t, "the payload", got.Payload, i)
	}
	_, err = c.EnqueueBulk(background, []NewJob{{Queue: "bulk", Type: "t"},
		{Queue: "bulk", Type: "t", Priority: Int(-1)}})
	var refused *APIError
	if !errors.As(err, &refused) || !errors.Is(err, ErrBadRequest) {
		t.Fatal(err)
	}
	same(t, "the error", []any{refused.Status, refused.Code, refused.Where(), *refused.Offset > 0},
		[]any{400, "bad_value", "jobs[1].priority", true})
	same(t, "the number of jobs", count(t, c, "bulk"), 2)
}

func TestErrorsHaveKinds(t *testing.T) {
	c := newClient(t, Options{})
	nobody := "03fr82s077azjmurys29qjch4"
	job, err := c.Enqueue(background, NewJob{Queue: "errors", Type: "t"})
	must(t, err)
	queue := map[string]any{"name": "errors-q"}
	must(t, c.Do(background, "POST", "/queues", queue, nil))
	for _, one := range []struct {
		kind   error
		status int
		code   string
		ask    func() error
	}{
		{ErrNotFound, 404, "not_found", func() error { _, err := c.Job(background, nobody); return err }},
		{ErrBadRequest, 400, "bad_name", func() error {
			_, err := c.Enqueue(background, NewJob{Queue: "a,b", Type: "t"})
			return err
		}},
		{ErrUnprocessable, 422, "unprocessable", func() error {
			_, err := c.Enqueue(background, NewJob{Queue: "errors", Type: "t", DependsOn: []any{nobody}})
			return err
		}},
		{ErrNotFound, 404, "not_in_flight", func() error {
			return c.Do(background, "POST", "/jobs/"+job.ID+"/success", map[string]any{}, nil)
		}},
		{ErrConflict, 409, "conflict", func() error {
			return c.Do(background, "POST", "/queues", queue, nil)
		}},
	} {
		var refused *APIError
		if err := one.ask(); !errors.As(err, &refused) || !errors.Is(err, one.kind) ||
			refused.Status != one.status || refused.Code != one.code || errors.Is(err, ErrServer) {
			t.Errorf("%s: %v", one.code, err)
		}
	}
}

func TestAnEnqueueWhoseAnswerIsLostIsRepeatedAndAddsOneJob(t *testing.T) {
	c := newClient(t, Options{})
	drop(t, c, "/jobs", 2)
	job, err := c.Enqueue(background, NewJob{Queue: "once", Type: "t"})
	must(t, err)
	same(t, "duplicate", job.Duplicate, false)
	drop(t, c, "/jobs/bulk", 1)
	_, err = c.EnqueueBulk(background, []NewJob{{Queue: "once", Type: "t"}})
	must(t, err)
	same(t, "the number of jobs", count(t, c, "once"), 2)
}

func TestAnIdempotencyKeyMayBeGiven(t *testing.T) {
	c := newClient(t, Options{})
	ctx := WithIdempotencyKey(background, "go-1")
	first, err := c.Enqueue(ctx, NewJob{Queue: "key", Type: "t", Payload: 1})
	must(t, err)
	again, err := c.Enqueue(ctx, NewJob{Queue: "key", Type: "t", Payload: 1})
	must(t, err)
	same(t, "the answer", again.Raw, first.Raw)
	_, err = c.Enqueue(ctx, NewJob{Queue: "key", Type: "t", Payload: 2})
	var refused *APIError
	if !errors.As(err, &refused) || refused.Code != "idempotency_key_reused" {
		t.Fatal(err)
	}
}

func TestWithoutKeysAnEnqueueIsNotRepeatedBlindly(t *testing.T) {
	c := newClient(t, Options{NoIdempotencyKeys: true})
	drop(t, c, "/jobs", 1)
	_, err := c.Enqueue(background, NewJob{Queue: "lost", Type: "t"})
	var broken *ConnectionError
	if !errors.As(err, &broken) || !broken.Sent {
		t.Fatal(err)
	}
	same(t, "the number of jobs", count(t, c, "lost"), 1)
}

func TestWithoutKeysWhatTheServerRecognisesIsRepeated(t *testing.T) {
	c := newClient(t, Options{NoIdempotencyKeys: true})
	drop(t, c, "/jobs", 2)
	job, err := c.Enqueue(background, NewJob{Queue: "again", Type: "t", Alias: "again-1"})
	must(t, err)
	drop(t, c, "/jobs/bulk", 1)
	jobs, err := c.EnqueueBulk(background, []NewJob{{Queue: "again", Type: "t", UniqueKey: "again-2",
		UniqueWhile: "exists"}})
	must(t, err)
	same(t, "duplicate", []bool{job.Duplicate, jobs[0].Duplicate}, []bool{true, true})
	same(t, "the number of jobs", count(t, c, "again"), 2)
}

func TestWhatWasNotDoneIsRepeated(t *testing.T) {
	c := newClient(t, Options{})
	must(t, c.Do(background, "POST", "/proxy/refuse",
		map[string]any{"path": "/jobs", "count": 2, "status": 503, "code": "busy"}, nil))
	job, err := c.Enqueue(background, NewJob{Queue: "busy", Type: "t"})
	must(t, err)
	same(t, "duplicate", job.Duplicate, false)
}

func TestAServerThatIsNotThere(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := listener.Addr().String()
	must(t, listener.Close())
	c := newClient(t, Options{URL: "http://" + address, RetryFor: 300 * time.Millisecond})
	_, err = c.Enqueue(background, NewJob{Queue: "q", Type: "t"})
	var broken *ConnectionError
	if !errors.As(err, &broken) || broken.Sent {
		t.Fatal(err)
	}
}

func TestAContextEndsARequest(t *testing.T) {
	ctx, cancel := context.WithCancel(background)
	cancel()
	_, err := newClient(t, Options{}).Enqueue(ctx, NewJob{Queue: "q", Type: "t"})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestAURLIsChecked(t *testing.T) {
	if _, err := NewClient(Options{URL: "ftp://localhost"}); err == nil {
		t.Fatal("accepted")
	}
}

// --- a server with TLS that asks for a token ---

func secure() Options {
	return Options{URL: os.Getenv("TEST_SECURE_URL"), CACert: os.Getenv("TEST_CA_CERT"),
		TokenFile: os.Getenv("TEST_TOKEN_FILE"), RetryFor: -1}
}

func enqueueSecure(t *testing.T, o Options) error {
	t.Helper()
	_, err := newClient(t, o).Enqueue(background, NewJob{Queue: "secure", Type: "t"})
	return err
}

func TestATokenFileIsReadAgainWhenItsTokenIsRefused(t *testing.T) {
	o := secure()
	good, err := os.ReadFile(o.TokenFile)
	must(t, err)
	o.TokenFile = filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(o.TokenFile, []byte("tx_"+strings.Repeat("0", 40)), 0o600))
	client := newClient(t, o)
	job := NewJob{Queue: "secure", Type: "t"}
	if _, err := client.Enqueue(background, job); !errors.Is(err, ErrUnauthorized) {
		t.Fatalf("the error is %v", err)
	}
	must(t, os.WriteFile(o.TokenFile, good, 0o600))
	_, err = client.Enqueue(background, job)
	must(t, err)
}

func TestACAAndATokenOfAFile(t *testing.T) {
	must(t, enqueueSecure(t, secure()))
}

func TestTheEnvironment(t *testing.T) {
	o := secure()
	token, err := os.ReadFile(o.TokenFile)
	must(t, err)
	t.Setenv("TENAX_URL", o.URL)
	t.Setenv("TENAX_CA_CERT", o.CACert)
	t.Setenv("TENAX_TOKEN", strings.TrimSpace(string(token)))
	must(t, enqueueSecure(t, Options{}))
	t.Setenv("TENAX_TOKEN", "")
	t.Setenv("TENAX_TOKEN_FILE", o.TokenFile)
	must(t, enqueueSecure(t, Options{}))
}

func TestTheSchemeMayBeLeftOut(t *testing.T) {
	client := newClient(t, Options{URL: strings.TrimPrefix(os.Getenv("TENAX_URL"), "http://") + "/"})
	_, err := client.Enqueue(background, NewJob{Queue: "bare", Type: "t"})
	must(t, err)
	for given, meant := range map[string]string{"example.org": "http://example.org:7890",
		"[::1]:1": "http://[::1]:1", "localhost:1/prefix/": "http://localhost:1/prefix"} {
		same(t, given, newClient(t, Options{URL: given}).url, meant)
	}
	for _, wrong := range []string{"ftp://localhost", "http:/localhost", "http//localhost", "localhost:", "::1", ":7890", "localhost:x"} {
		if _, err := NewClient(Options{URL: wrong}); err == nil || !strings.Contains(err.Error(), "or localhost:7890") {
			t.Fatalf("%s: %v", wrong, err)
		}
	}
}

func TestWithoutTheCAItIsNotTrusted(t *testing.T) {
	o := secure()
	o.CACert = ""
	var broken *ConnectionError
	if err := enqueueSecure(t, o); !errors.As(err, &broken) || broken.Sent {
		t.Fatal(err)
	}
}

func TestNoTokenAndAWrongOne(t *testing.T) {
	for token, code := range map[string]string{"": "credentials_required", "tnx_wrong": "bad_credentials"} {
		o := secure()
		o.TokenFile, o.Token = "", token
		var refused *APIError
		err := enqueueSecure(t, o)
		if !errors.Is(err, ErrUnauthorized) || !errors.As(err, &refused) || refused.Code != code {
			t.Error(err)
		}
	}
}

func TestWhatTheTokenDoesNotAllow(t *testing.T) {
	err := newClient(t, secure()).Do(background, "GET", "/tokens", nil, nil)
	if !errors.Is(err, ErrForbidden) {
		t.Fatal(err)
	}
}

func TestATokenThatIsNoneIsNotQuoted(t *testing.T) {
	_, err := NewClient(Options{Token: "sec ret"})
	if err == nil || strings.Contains(err.Error(), "ret") {
		t.Fatal(err)
	}
}
