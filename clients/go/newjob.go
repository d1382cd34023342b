// SPDX-License-Identifier: Apache-2.0

package tenax

import (
	"encoding/json"
	"time"
)

// A NewJob is what is enqueued: the members of POST /jobs in docs/api.md. What is empty or nil is left
// out, but for the payload.
type NewJob struct {
	Queue, Type    string
	Payload        any
	Priority       *int // lower first; see Int
	ReadyAt        time.Time
	RetryLimit     *int
	Backoff        *Backoff
	Retention      *Retention
	UniqueKey      string
	UniqueWhile    string // "queued", "active" or "exists"
	Alias          string
	Deadline       time.Time
	RetainUntil    time.Time
	DependsOn      []any // ids, and in bulk places of earlier jobs
	ConcurrencyKey string
	MaxRun         time.Duration // how long one run may take; any time if 0
	RetryFor       time.Duration // how long after its first failure a retry may begin; any time if 0
	Group          string
	RetryPolicies  []string
	Traceparent    string // the trace that it belongs to
	Tracestate     string
	More           map[string]any // further members, by their names there
}

// Backoff is the wait before a retry.
type Backoff struct {
	BaseMS   int64   `json:"base_ms"`
	Exponent float64 `json:"exponent"`
	JitterMS int64   `json:"jitter_ms"`
}

// Retention is how long an ended job is kept.
type Retention struct {
	CompletedMS *int64 `json:"completed_ms,omitempty"`
	DeadMS      *int64 `json:"dead_ms,omitempty"`
}

// Int is a pointer to n, for members of which 0 is a value.
func Int(n int) *int { return &n }

// MarshalJSON writes it as POST /jobs reads it.
func (j NewJob) MarshalJSON() ([]byte, error) {
	all := map[string]any{}
	for name, value := range j.More {
		all[name] = value
	}
	all["queue"], all["type"], all["payload"] = j.Queue, j.Type, j.Payload
	if j.Priority != nil {
		all["priority"] = *j.Priority
	}
	if j.MaxRun != 0 {
		all["max_run_ms"] = j.MaxRun.Milliseconds()
	}
	if j.RetryFor != 0 {
		all["retry_for_ms"] = j.RetryFor.Milliseconds()
	}
	if j.RetryLimit != nil {
		all["retry_limit"] = *j.RetryLimit
	}
	if j.Backoff != nil {
		all["backoff"] = j.Backoff
	}
	if j.Retention != nil {
		all["retention"] = j.Retention
	}
	if j.DependsOn != nil {
		all["depends_on"] = j.DependsOn
	}
	if j.RetryPolicies != nil {
		all["retry_policies"] = j.RetryPolicies
	}
	addText(all, "unique_key", j.UniqueKey)
	addText(all, "unique_while", j.UniqueWhile)
	addText(all, "alias", j.Alias)
	addText(all, "concurrency_key", j.ConcurrencyKey)
	addText(all, "group", j.Group)
	addText(all, "traceparent", j.Traceparent)
	addText(all, "tracestate", j.Tracestate)
	addTime(all, "ready_at", j.ReadyAt)
	addTime(all, "deadline", j.Deadline)
	addTime(all, "retain_until", j.RetainUntil)
	return json.Marshal(all)
}

// mayRepeat says whether the server recognises a second enqueue, for as long as it keeps the job.
func (j NewJob) mayRepeat() bool {
	return j.Alias != "" || (j.UniqueKey != "" && j.UniqueWhile == "exists")
}

// isPlain says that it has nothing to do with other jobs, which might refuse or change all of a bulk.
func (j NewJob) isPlain() bool {
	return j.UniqueKey == "" && j.UniqueWhile == "" && j.Alias == "" && j.DependsOn == nil && j.ConcurrencyKey == "" &&
		j.Group == "" && j.RetryPolicies == nil && j.More == nil
}

// A JobData is a job as the server shows it; Raw is all of it.
type JobData struct {
	ID             string          `json:"id"`
	Queue          string          `json:"queue"`
	Type           string          `json:"type"`
	Status         string          `json:"status"`
	Priority       int             `json:"priority"`
	ReadyAt        int64           `json:"ready_at"`
	Attempts       int             `json:"attempts"` // failures so far
	Payload        json.RawMessage `json:"payload"`
	Checkpoint     json.RawMessage `json:"checkpoint"`
	Result         json.RawMessage `json:"result"`
	Reason         string          `json:"reason"`
	Resolution     string          `json:"resolution"`
	Traceparent    string          `json:"traceparent"` // the trace that it belongs to
	Tracestate     string          `json:"tracestate"`
	Duplicate      bool            `json:"duplicate"` // of an enqueue: it stands for one that was there
	Folded         bool            `json:"folded"`    // of an enqueue: it was folded into one that was there
	Run            int             `json:"run"`       // of a claim: the index of the run, from 0
	Token          string          `json:"token"`     // of a claim
	LeaseExpiresAt int64           `json:"lease_expires_at"`
	MaxRunMS       int64           `json:"max_run_ms"` // how long a run may take; 0: any time
	Raw            json.RawMessage `json:"-"`
}

// UnmarshalJSON keeps all of it in Raw.
func (d *JobData) UnmarshalJSON(text []byte) error {
	type plain JobData
	if err := json.Unmarshal(text, (*plain)(d)); err != nil {
		return err
	}
	d.Raw = append(json.RawMessage(nil), text...)
	return nil
}
