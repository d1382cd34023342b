// SPDX-License-Identifier: Apache-2.0

package tenax

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// Kinds of an *APIError, for errors.Is.
var (
	ErrBadRequest    = errors.New("bad request")       // 400 and other statuses of a wrong request
	ErrUnauthorized  = errors.New("unauthorized")      // 401: no token, or a wrong one
	ErrForbidden     = errors.New("forbidden")         // 403: the token does not allow it
	ErrNotFound      = errors.New("not found")         // 404: there is no such thing
	ErrConflict      = errors.New("conflict")          // 409: exists, has changed, or is in use
	ErrStaleToken    = errors.New("the run is over")   // 409 of a run that is over; also ErrConflict
	ErrUnprocessable = errors.New("unprocessable")     // 422: well-formed, but cannot be applied
	ErrServer        = errors.New("the server failed") // 5xx
)

var (
	// ErrLeaseLost says that the run is not this worker's any more; a handler just returns it.
	ErrLeaseLost = errors.New("the lease is lost")

	// ErrGiveBack is returned by a handler: the job goes back to its queue, and the run does not
	// count.
	ErrGiveBack = errors.New("given back")
)

// A GiveBack is ErrGiveBack with more to say. Without a time the job comes back at once, if it is given
// back for the first time, and after that with a pause that doubles each time, up to a minute; at once,
// too, if the worker is about to end.
type GiveBack struct {
	Message string        // why
	ReadyAt time.Time     // not before then is the job handed out again
	Delay   time.Duration // nor before so much time has passed, by the server's clock; not with ReadyAt
}

func (g *GiveBack) Error() string {
	if g.Message == "" {
		return ErrGiveBack.Error()
	}
	return g.Message
}

// Is makes it ErrGiveBack for errors.Is.
func (g *GiveBack) Is(target error) bool { return target == ErrGiveBack }

// members are those of the report; a job without a time comes back after the pause.
func (g *GiveBack) members(pause time.Duration) map[string]any {
	body := map[string]any{}
	if g.Message != "" {
		body["message"] = g.Message
	}
	if g.Delay > 0 {
		pause = g.Delay
	}
	if !g.ReadyAt.IsZero() {
		body["ready_at"] = g.ReadyAt.UnixMilli()
	} else if pause > 0 {
		body["delay_ms"] = pause.Milliseconds()
	}
	return body
}

// An APIError is a refusal by the server.
type APIError struct {
	Status  int             // of HTTP
	Code    string          // one of docs/errors.md
	Message string          // a sentence
	Offset  *int64          // where in the body that was sent, in bytes
	Body    json.RawMessage // all of the answer
}

// newAPIError returns nil unless the body is how Tenax refuses: with a code and a sentence. A health
// has neither, and an answer that says what became of each of many jobs needs neither.
func newAPIError(path string, status int, body []byte) *APIError {
	var known struct {
		Error, Code, Status string
		Offset              *int64
		Jobs, Reports       json.RawMessage
		NotFound            json.RawMessage `json:"not_found"`
	}
	if json.Unmarshal(body, &known) != nil {
		return nil
	}
	if isHealth := strings.SplitN(path, "?", 2)[0] == "/health"; isHealth && known.Status != "" {
		known.Error = "the server is " + known.Status
	} else if !codeForm.MatchString(known.Code) || known.Error == "" {
		if isList(known.Jobs) {
			known.Error = "some of these leases were not renewed"
		} else if isList(known.Reports) {
			known.Error = "some of these reports were refused"
		} else if isList(known.NotFound) {
			known.Error = "some of these jobs are not in flight"
		} else {
			return nil
		}
	}
	return &APIError{status, known.Code, known.Error, known.Offset, body}
}

var (
	codeForm    = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	toldPath    = regexp.MustCompile(`^/jobs/[^/]+/(success|release|progress)$`)
	failurePath = regexp.MustCompile(`^/jobs/[^/]+/failure$`)
)

// isDone says whether this is how Tenax says that it was done. 204 alone is without a body, and what became
// of one run is answered so, but for a failure, whose job is shown.
func isDone(path string, status int, body []byte, member string) bool {
	if toldPath.MatchString(path) {
		return status == 204
	}
	if failurePath.MatchString(path) {
		member = "id"
	}
	if (status == 204) != (len(body) == 0) {
		return false
	}
	return len(body) == 0 || (json.Valid(body) && (member == "" || hasMember(body, member)))
}

func isList(value json.RawMessage) bool { return len(value) > 0 && value[0] == '[' }

func (e *APIError) Error() string {
	return fmt.Sprintf("%s (HTTP %d, %s)", e.Message, e.Status, e.Code)
}

// How the server's sentences name the member that is wrong: "jobs[3]: priority: expected ...".
var where = regexp.MustCompile(`^(?:[\w.$-]+(?:\[\d+\])*: )+`)

// Where is the member that is wrong, as "jobs[3].priority", or empty if the server names none.
func (e *APIError) Where() string {
	return strings.ReplaceAll(strings.TrimSuffix(where.FindString(e.Message), ": "), ": ", ".")
}

// Is makes errors.Is(err, ErrNotFound) and the like work.
func (e *APIError) Is(target error) bool {
	switch target {
	case ErrStaleToken:
		return e.Code == "stale_token" || e.Code == "stale_gang" || e.Code == "run_limit"
	case ErrUnauthorized:
		return e.Status == http.StatusUnauthorized
	case ErrForbidden:
		return e.Status == http.StatusForbidden
	case ErrNotFound:
		return e.Status == http.StatusNotFound
	case ErrConflict:
		return e.Status == http.StatusConflict
	case ErrUnprocessable:
		return e.Status == http.StatusUnprocessableEntity
	case ErrServer:
		return e.Status >= 500
	case ErrBadRequest:
		return e.Status < 500 && !e.hasKind()
	}
	return false
}

func (e *APIError) hasKind() bool {
	for _, kind := range []error{ErrUnauthorized, ErrForbidden, ErrNotFound, ErrConflict,
		ErrUnprocessable} {
		if e.Is(kind) {
			return true
		}
	}
	return false
}

// final says that the same refusal would come again.
func (e *APIError) final() bool {
	return e.Status < 500 && e.Status != http.StatusRequestTimeout &&
		e.Status != http.StatusTooManyRequests
}

// A ConnectionError says that there was no answer.
type ConnectionError struct {
	// Sent is false if the request never left, so that nothing can have happened. If it is true
	// the outcome is unknown: the server may have done what was asked.
	Sent bool
	Err  error
}

func (e *ConnectionError) Error() string { return "no answer: " + e.Err.Error() }
func (e *ConnectionError) Unwrap() error { return e.Err }

// A ForeignAnswer says that something else answered in the server's place: a proxy, a load balancer, a
// sign-in page. Such an answer, whatever its status, says nothing about the request: it counts as none,
// and is the Err of a *ConnectionError.
type ForeignAnswer struct {
	Status int // of HTTP
	what   string
}

func (e *ForeignAnswer) Error() string {
	return fmt.Sprintf("%s: what answered with HTTP %d is not Tenax but something in between, such as a proxy",
		e.what, e.Status)
}

func isForeign(err error) bool {
	var foreign *ForeignAnswer
	return errors.As(err, &foreign)
}

// A Failure is returned by a handler: the run failed, and this is what is known about it. What is
// empty is left out.
type Failure struct {
	Message     string
	ErrorType   string
	Backtrace   string
	ExitCode    *int
	Category    string
	Subcategory string
	Kill        bool           // no retry
	RetryAt     time.Time      // try again then
	More        map[string]any // further members of a failure in docs/api.md
	Err         error          // what it was made of, for errors.Is; its text is the message if none is given
}

func (f *Failure) Error() string {
	if f.Message == "" && f.Err != nil {
		return f.Err.Error()
	}
	return f.Message
}

func (f *Failure) Unwrap() error { return f.Err }

func (f *Failure) members() map[string]any {
	all := map[string]any{}
	for name, value := range f.More {
		all[name] = value
	}
	all["message"] = f.Error()
	addText(all, "error_type", f.ErrorType)
	addText(all, "backtrace", f.Backtrace)
	addText(all, "category", f.Category)
	addText(all, "subcategory", f.Subcategory)
	addTime(all, "retry_at", f.RetryAt)
	if f.ExitCode != nil {
		all["exit_code"] = *f.ExitCode
	}
	if f.Kill {
		all["kill"] = true
	}
	return all
}

func addText(to map[string]any, name, value string) {
	if value != "" {
		to[name] = value
	}
}

func addTime(to map[string]any, name string, value time.Time) {
	if !value.IsZero() {
		to[name] = value.UnixMilli()
	}
}

func (e *APIError) decode(to any) error { return json.Unmarshal(e.Body, to) }
