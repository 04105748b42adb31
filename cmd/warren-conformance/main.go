package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/test/testenv/program"
)

// Exit codes.
const (
	exitFailed = 1 // the program fails a pitfall
	exitBroken = 2 // a pitfall was not tried
)

// settings are what the command line asks for.
type settings struct {
	strategy contract.Strategy
	pitfalls []pitfall
	list     bool
	limit    time.Duration // how long a trial waits for what must happen
	logs     string        // the folder for the output of the programs
	command  []string      // the program
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, arguments []string) int {
	given, err := readFlags(arguments)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil && given.list {
		printPitfalls(os.Stdout)
		return 0
	}
	var results []result
	if err == nil {
		err = program.Run(ctx, func(p *program.Program) (err error) {
			broker, private := findBroker(p)
			results, err = tryAll(p, given, broker, private, os.Stdout)
			return err
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "warren-conformance:", err)
		return exitBroken
	}
	switch {
	case slices.ContainsFunc(results, func(r result) bool { return r.err != nil }):
		return exitBroken
	case slices.ContainsFunc(results, result.failed):
		return exitFailed
	}
	return 0
}

func readFlags(arguments []string) (*settings, error) {
	given := &settings{limit: 30 * time.Second}
	flags := flag.NewFlagSet("warren-conformance", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "warren-conformance [flags] -- COMMAND [ARGUMENT...]")
		flags.PrintDefaults()
	}
	strategy := flags.String("strategy", string(contract.StrategyPublish),
		"the retry `strategy` of the topology: Publish, Reject, Requeue or None")
	only := flags.String("only", "", "the `pitfalls` to try, separated by commas; all without it")
	flags.BoolVar(&given.list, "list", false, "list the pitfalls and exit")
	flags.StringVar(&given.logs, "logs", "", "the `folder` for what the programs print; a new one without it")
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	given.strategy, given.command = contract.Strategy(*strategy), flags.Args()
	if _, known := specs[given.strategy]; !known {
		return nil, fmt.Errorf("-strategy %q: want Publish, Reject, Requeue or None", *strategy)
	}
	if len(given.command) == 0 && !given.list {
		return nil, errors.New("name the program to test: warren-conformance -- COMMAND [ARGUMENT...]")
	}
	var err error
	given.pitfalls, err = pick(*only)
	return given, err
}

// pick returns the pitfalls of a list of names, all for an empty one.
func pick(names string) ([]pitfall, error) {
	if names == "" {
		return pitfalls, nil
	}
	var picked []pitfall
	for name := range strings.SplitSeq(names, ",") {
		at := slices.IndexFunc(pitfalls, func(p pitfall) bool { return p.name == name })
		if at < 0 {
			return nil, fmt.Errorf("-only: there is no pitfall %q; -list shows them", name)
		}
		picked = append(picked, pitfalls[at])
	}
	return picked, nil
}
