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
	exitBroken = 2 // the command could not try a pitfall
)

// limits are the maximum waits of a trial. Tests on a busy machine use longer ones.
type limits struct {
	start    time.Duration // for the start of the program; the other limits begin afterwards
	event    time.Duration // for an event that only correct programs cause
	anyEvent time.Duration // for an event that programs with a mistake cause, too
	end      time.Duration // for the end of the trial
}

var defaults = limits{start: 2 * time.Minute, event: 30 * time.Second, anyEvent: 30 * time.Second, end: 10 * time.Minute}

// settings are the parsed command line.
type settings struct {
	limits

	strategy contract.Strategy
	pitfalls []pitfall
	// only reports whether pitfalls were named, so that none of them may be skipped.
	only    bool
	list    bool
	logs    string   // the directory for the output of the programs
	command []string // the program
	// followsPause: also try the pitfalls of programs that follow the pauses of the contract, which is optional.
	followsPause bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], defaults)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, arguments []string, waits limits) int {
	settings, err := readFlags(arguments, waits)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil && settings.list {
		printPitfalls(os.Stdout)
		return 0
	}
	var results []result
	if err == nil {
		err = program.Run(ctx, func(p *program.Program) (err error) {
			broker, private := findBroker(p)
			results, err = tryAll(p, settings, broker, private, os.Stdout)
			return err
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "warren-conformance:", err)
		return exitBroken
	}
	skipped := func(r result) bool { return r.skipped != "" }
	switch {
	case slices.ContainsFunc(results, func(r result) bool { return r.err != nil || settings.only && skipped(r) }):
		return exitBroken
	case slices.ContainsFunc(results, result.failed):
		return exitFailed
	}
	return 0
}

func readFlags(arguments []string, waits limits) (*settings, error) {
	settings := &settings{limits: waits}
	flags := flag.NewFlagSet("warren-conformance", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "warren-conformance [flags] -- COMMAND [ARGUMENT...]")
		flags.PrintDefaults()
	}
	strategy := flags.String("strategy", string(contract.StrategyPublish),
		"the retry `strategy` of the topology: Publish, Reject, Requeue or None")
	only := flags.String("only", "", "the `pitfalls` to try, separated by commas (default all)")
	flags.BoolVar(&settings.list, "list", false, "list the pitfalls and exit")
	flags.BoolVar(&settings.followsPause, "follows-pause", false, "the program follows the pauses of the contract")
	flags.StringVar(&settings.logs, "logs", "", "the `directory` for the output of the programs (default a new one)")
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	settings.only = *only != ""
	settings.strategy, settings.command = contract.Strategy(*strategy), flags.Args()
	if _, known := specs[settings.strategy]; !known {
		return nil, fmt.Errorf("-strategy %q is unknown: use Publish, Reject, Requeue or None", *strategy)
	}
	if len(settings.command) == 0 && !settings.list {
		return nil, errors.New("no program to test: use warren-conformance -- COMMAND [ARGUMENT...]")
	}
	var err error
	settings.pitfalls, err = selectPitfalls(*only)
	return settings, err
}

// selectPitfalls returns the named pitfalls, or all if names is empty.
func selectPitfalls(names string) ([]pitfall, error) {
	if names == "" {
		return pitfalls, nil
	}
	var selected []pitfall
	for name := range strings.SplitSeq(names, ",") {
		at := slices.IndexFunc(pitfalls, func(p pitfall) bool { return p.name == name })
		if at < 0 {
			return nil, fmt.Errorf("-only %q is not a pitfall: -list shows all of them", name)
		}
		selected = append(selected, pitfalls[at])
	}
	return selected, nil
}
