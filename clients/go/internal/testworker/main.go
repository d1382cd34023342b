// SPDX-License-Identifier: Apache-2.0

// The worker that tests/clients/language.js kills and restarts servers under.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"tenax.dev/tenax"
)

func milliseconds(text string) time.Duration {
	n, err := strconv.Atoi(text)
	if err != nil {
		log.Fatal(err)
	}
	return time.Duration(n) * time.Millisecond
}

// more enqueues a job; its result says whether something in between answered.
func more(ctx context.Context, job *tenax.Job) (any, error) {
	var payload struct {
		Queue   string
		RetryMS int64 `json:"retry_ms"`
	}
	if err := job.Decode(&payload); err != nil {
		return nil, err
	}
	retryFor := time.Duration(payload.RetryMS) * time.Millisecond
	client, err := tenax.NewClient(tenax.Options{RetryFor: retryFor})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	_, err = client.Enqueue(ctx, tenax.NewJob{Queue: payload.Queue, Type: "work", Payload: map[string]int{"ms": 0}})
	var foreign *tenax.ForeignAnswer
	if errors.As(err, &foreign) {
		return err.Error(), nil
	}
	return "enqueued", err
}

// many reports many jobs at once; its result is which of them were not found.
func many(ctx context.Context, job *tenax.Job) (any, error) {
	var payload struct{ IDs []string }
	if err := job.Decode(&payload); err != nil {
		return nil, err
	}
	client, err := tenax.NewClient(tenax.Options{})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	err = client.Do(ctx, "POST", "/jobs/success", map[string]any{"ids": payload.IDs}, nil)
	var refused *tenax.APIError
	if !errors.As(err, &refused) || refused.Status != 422 {
		return []string{}, err
	}
	var answer struct {
		NotFound []string `json:"not_found"`
	}
	return &answer.NotFound, json.Unmarshal(refused.Body, &answer)
}

func main() {
	queue, ledger := os.Args[1], os.Args[5]
	file, err := os.OpenFile(ledger, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		log.Fatal(err)
	}
	note := func(job *tenax.Job) { fmt.Fprintf(file, "%s %s %d\n", job.Type, job.ID, job.Run) }
	client, err := tenax.NewClient(tenax.Options{})
	if err != nil {
		log.Fatal(err)
	}
	work := func(ctx context.Context, job *tenax.Job) (any, error) {
		var payload struct{ MS int64 }
		if err := job.Decode(&payload); err != nil {
			return nil, err
		}
		time.Sleep(time.Duration(payload.MS) * time.Millisecond)
		note(job)
		return nil, nil
	}
	hold := func(ctx context.Context, job *tenax.Job) (any, error) {
		note(job)
		select {
		case <-ctx.Done():
			return nil, tenax.ErrLeaseLost
		case <-job.Stopping():
		}
		if err := job.Save(ctx, map[string]int{"run": job.Run}); err != nil {
			return nil, err
		}
		return nil, tenax.ErrGiveBack
	}
	deaf := func(ctx context.Context, job *tenax.Job) (any, error) {
		note(job)
		time.Sleep(time.Minute)
		return nil, nil
	}
	tell := func(ctx context.Context, job *tenax.Job) (any, error) {
		if err := job.Progress(ctx, 0.5, ""); err != nil {
			return nil, err
		}
		if err := job.Save(ctx, map[string]int{"run": job.Run}); err != nil {
			return nil, err
		}
		note(job)
		return nil, nil
	}
	fail := func(ctx context.Context, job *tenax.Job) (any, error) {
		note(job)
		return nil, &tenax.Failure{Message: "it failed"}
	}
	worker := &tenax.Worker{Client: client, Queues: []string{queue},
		Handler:     tenax.Mux{"work": work, "hold": hold, "deaf": deaf, "tell": tell, "fail": fail, "more": more, "many": many}.Work,
		Concurrency: int(milliseconds(os.Args[2]) / time.Millisecond),
		Lease:       milliseconds(os.Args[3]), Grace: milliseconds(os.Args[4])}
	defer worker.StopOnSignals()()
	if err := worker.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
