package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/testenv/program"
)

// maxTrials is how many trials run at the same time. They mostly wait.
const maxTrials = 6

type result struct {
	pitfall pitfall
	// skipped is the reason for not trying the pitfall, or "".
	skipped        string
	lost, repeated int
	// mistakes are the observed mistakes, in order.
	mistakes []string
	// err is why the trial failed to run. It says nothing about the program.
	err error
}

func (r result) failed() bool { return len(r.mistakes) > 0 }

// tryAll tries the selected pitfalls and prints a report. Pitfalls that disturb the whole broker are tried last, one by one.
func tryAll(p *program.Program, settings *settings, broker brokers.Broker, private *brokers.Private, out io.Writer) ([]result, error) {
	temporary := settings.logs == ""
	if temporary {
		folder, err := os.MkdirTemp("", "warren-conformance-")
		if err != nil {
			return nil, err
		}
		settings.logs = folder
	}
	fmt.Fprintf(out, "RabbitMQ %s, strategy %s, program %q\n", broker.Version, settings.strategy, settings.command)
	results := make([]result, len(settings.pitfalls))
	slots := make(chan struct{}, maxTrials)
	var running sync.WaitGroup
	for i, each := range settings.pitfalls {
		results[i] = result{pitfall: each, skipped: skip(each, settings, private)}
		if each.alone || results[i].skipped != "" {
			continue
		}
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			try(p.Context(), &results[i], settings, broker, nil)
		})
	}
	running.Wait()
	for i, each := range settings.pitfalls {
		if each.alone && results[i].skipped == "" {
			try(p.Context(), &results[i], settings, broker, private)
		}
	}
	if err := p.Context().Err(); err != nil {
		return nil, fmt.Errorf("interrupted: %w", err)
	}
	printReport(out, results)
	failed := slices.ContainsFunc(results, func(r result) bool { return r.failed() || r.err != nil })
	if temporary && !failed {
		return results, os.RemoveAll(settings.logs)
	}
	fmt.Fprintf(out, "The program's output is in %s\n", settings.logs)
	return results, nil
}

// findBroker returns the first broker of WARREN_TEST_BROKERS, or starts a private one that trials may disturb.
func findBroker(p *program.Program) (brokers.Broker, *brokers.Private) {
	if os.Getenv("WARREN_TEST_BROKERS") != "" {
		return brokers.Newest(p), nil
	}
	private := brokers.NewPrivate(p)
	return private.Broker, private
}

// skip returns why a pitfall cannot be tried, or "".
func skip(p pitfall, settings *settings, private *brokers.Private) string {
	switch {
	case !p.appliesTo(settings.strategy):
		return fmt.Sprintf("does not apply to strategy %s", settings.strategy)
	case p.pauses && !settings.followsPause:
		return "not tried without -follows-pause"
	case p.alone && private == nil:
		return "not tried with WARREN_TEST_BROKERS, because it disturbs all clients of the broker"
	}
	return ""
}

// try runs the trial of one pitfall and stores the result.
func try(ctx context.Context, r *result, settings *settings, broker brokers.Broker, private *brokers.Private) {
	ctx, cancel := context.WithTimeout(ctx, settings.end)
	defer cancel()
	r.err = program.Run(ctx, func(p *program.Program) error {
		t := newTrial(p, r, settings, broker, private)
		r.pitfall.try(t)
		t.evaluate()
		return nil
	})
}
