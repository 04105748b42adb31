package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/testenv/program"
)

const (
	// atOnce is how many trials run at the same time. They mostly wait.
	atOnce = 6
	// longest is after how long a trial ends that has not ended by itself.
	longest = 3 * time.Minute
)

// result is the outcome of one pitfall.
type result struct {
	pitfall pitfall
	// skipped says why the pitfall was not tried.
	skipped        string
	lost, repeated int
	// seen are the mistakes, in the order in which they were seen.
	seen []string
	// err is why the trial could not be carried out, which says nothing about the program.
	err error
}

func (r result) failed() bool { return len(r.seen) > 0 }

// tryAll tries the pitfalls of the settings, and prints a report. Pitfalls that stop the broker come last.
func tryAll(p *program.Program, given *settings, broker brokers.Broker, private *brokers.Private, out io.Writer) ([]result, error) {
	temporary := given.logs == ""
	if temporary {
		folder, err := os.MkdirTemp("", "warren-conformance-")
		if err != nil {
			return nil, err
		}
		given.logs = folder
	}
	fmt.Fprintf(out, "RabbitMQ %s, strategy %s, program %q\n", broker.Version, given.strategy, given.command)
	results := make([]result, len(given.pitfalls))
	slots := make(chan struct{}, atOnce)
	var running sync.WaitGroup
	for i, each := range given.pitfalls {
		results[i] = result{pitfall: each, skipped: skip(each, given, private)}
		if each.restarts || results[i].skipped != "" {
			continue
		}
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			try(p.Context(), &results[i], given, broker, nil)
		})
	}
	running.Wait()
	for i, each := range given.pitfalls {
		if each.restarts && results[i].skipped == "" {
			try(p.Context(), &results[i], given, broker, private)
		}
	}
	if err := p.Context().Err(); err != nil {
		return nil, fmt.Errorf("interrupted: %w", err)
	}
	printReport(out, results)
	failed := slices.ContainsFunc(results, result.failed)
	if temporary && !failed {
		return results, os.RemoveAll(given.logs)
	}
	fmt.Fprintf(out, "The program's output is in %s\n", given.logs)
	return results, nil
}

// findBroker returns the first broker of WARREN_TEST_BROKERS, or else starts one that the trials may stop.
func findBroker(p *program.Program) (brokers.Broker, *brokers.Private) {
	if os.Getenv("WARREN_TEST_BROKERS") != "" {
		return brokers.Newest(p), nil
	}
	private := brokers.NewPrivate(p)
	return private.Broker, private
}

// skip says why a pitfall cannot be tried; empty if it can.
func skip(p pitfall, given *settings, private *brokers.Private) string {
	switch {
	case !p.appliesTo(given.strategy):
		return fmt.Sprintf("does not apply to strategy %s", given.strategy)
	case p.restarts && private == nil:
		return "not tried: a broker that WARREN_TEST_BROKERS names is not restarted"
	}
	return ""
}

// try runs the trial of one pitfall, and fills in the result.
func try(ctx context.Context, r *result, given *settings, broker brokers.Broker, private *brokers.Private) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	r.err = program.Run(ctx, func(p *program.Program) error {
		t := newTrial(p, r, given, broker, private)
		r.pitfall.try(t)
		t.judge()
		return nil
	})
}
