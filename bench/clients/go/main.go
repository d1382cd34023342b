// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"tenax.dev/tenax"
)

func cpu() float64 {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}

func enqueue(client *tenax.Client, queue string, left *int64) {
	for atomic.AddInt64(left, -1) >= 0 {
		job := tenax.NewJob{Queue: queue, Type: "t", Payload: map[string]int{"n": 1}}
		if _, err := client.Enqueue(context.Background(), job); err != nil {
			log.Fatal(err)
		}
	}
}

func main() {
	mode, queue := os.Args[1], os.Args[2]
	left, _ := strconv.ParseInt(os.Args[3], 10, 64)
	concurrency, _ := strconv.Atoi(os.Args[4])
	client, err := tenax.NewClient(tenax.Options{})
	if err != nil {
		log.Fatal(err)
	}
	begun, before := time.Now(), cpu()
	if mode == "drain" {
		worker := &tenax.Worker{Client: client, Queues: []string{queue}, Concurrency: concurrency,
			Handler: func(context.Context, *tenax.Job) (any, error) { return nil, nil }}
		if err := worker.Drain(context.Background()); err != nil {
			log.Fatal(err)
		}
	} else {
		var all sync.WaitGroup
		for i := 0; i < concurrency; i++ {
			all.Add(1)
			go func() {
				defer all.Done()
				enqueue(client, queue, &left)
			}()
		}
		all.Wait()
	}
	fmt.Printf(`{"seconds": %g, "cpu": %g}`, time.Since(begun).Seconds(), cpu()-before)
}
