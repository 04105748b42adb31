package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/warren-mq/warren/test/testenv/program"
)

// settings are the parsed flags.
type settings struct {
	counts   []int
	layouts  []layout
	phases   []string // the phases to measure; creation is always carried out
	manager  string   // the binary to measure
	crds     string   // the directory of that manager's CRDs
	profiles string   // the directory for profiles of the manager; empty for none
	page     string   // the page for the results; empty for none
	interval time.Duration
	tick     time.Duration // the broker's quorum_tick_interval
	idle     time.Duration
	edits    int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log.SetLogger(logr.Discard()) // everything of interest in the logs of envtest and informers is also an error
	given, err := readFlags(os.Args[1:])
	if err == nil {
		err = run(ctx, given)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func readFlags(arguments []string) (*settings, error) {
	given := &settings{}
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	counts := flags.String("n", "100 1000 3000", "how many `ConsumerQueues`, one number after the other")
	layouts := flags.String("layouts", strings.Join(layoutNames(), " "), "what the ConsumerQueues share")
	chosen := flags.String("phases", strings.Join(phaseNames(), " "), "what to measure after the creation")
	flags.StringVar(&given.manager, "manager", "bin/manager", "the `binary` to measure")
	flags.StringVar(&given.crds, "crds", "config/crd/bases", "the `folder` with the CRDs of that manager")
	flags.StringVar(&given.profiles, "profiles", "", "the `folder` for profiles of the manager, by phase; none are taken without it")
	flags.StringVar(&given.page, "page", "", "the `file` to write the results to, between its markers; only printed without it")
	flags.DurationVar(&given.interval, "interval", 30*time.Second, "resyncInterval of the BrokerConnection")
	flags.DurationVar(&given.tick, "quorum-tick", 5*time.Second,
		"the tick interval of quorum queues at the broker; RabbitMQ's default costs CPU if there are many queues")
	flags.DurationVar(&given.idle, "idle", time.Minute, "how long to measure the idle manager")
	flags.IntVar(&given.edits, "edits", 100, "how many ConsumerQueues are edited, at most")
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	for _, text := range words(*counts) {
		count, err := strconv.Atoi(text)
		if err != nil || count < 1 {
			return nil, fmt.Errorf("-n %q: want numbers above zero", *counts)
		}
		given.counts = append(given.counts, count)
	}
	for _, name := range words(*layouts) {
		at := slices.IndexFunc(layoutTable, func(l layout) bool { return l.name == name })
		if at < 0 {
			return nil, fmt.Errorf("-layouts %q: there are %v", name, layoutNames())
		}
		given.layouts = append(given.layouts, layoutTable[at])
	}
	given.phases = words(*chosen)
	for _, name := range given.phases {
		if !slices.Contains(phaseNames(), name) {
			return nil, fmt.Errorf("-phases %q: there are %v", name, phaseNames())
		}
	}
	return given, nil
}

// words splits a text at commas and spaces.
func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

func run(ctx context.Context, given *settings) error {
	results := &report{began: time.Now()}
	var failed error
	for _, count := range given.counts {
		for _, shared := range given.layouts {
			measure := func(p *program.Program) error { return measureWorld(p, given, count, shared, results) }
			if failed = program.Run(ctx, measure); failed != nil {
				failed = fmt.Errorf("%d ConsumerQueues, %s: %w", count, shared.name, failed)
				break
			}
		}
		if failed != nil {
			break
		}
	}
	if len(results.rows) > 0 {
		fmt.Println(results.markdown())
	}
	if failed != nil || given.page == "" {
		return failed
	}
	return results.writeTo(given.page)
}

// measureWorld adds the rows for one number of ConsumerQueues in one layout to the results.
func measureWorld(p *program.Program, given *settings, count int, shared layout, results *report) error {
	ctx := p.Context()
	w, err := newWorld(p, given, count, shared)
	if err != nil {
		return err
	}
	if len(results.rows) == 0 { // describes the commit that is measured, even if another one is made meanwhile
		results.machine = describeMachine(ctx, w)
	}
	for _, phase := range phases {
		if phase.name != phaseCreate && !slices.Contains(given.phases, phase.name) {
			continue
		}
		rows, err := phase.measure(ctx, w)
		for _, r := range rows {
			progress("%s", r)
		}
		results.rows = append(results.rows, rows...)
		if err != nil && ctx.Err() == nil && w.manager != nil {
			progress("%s", w.manager.logTail())
		}
		if err != nil {
			return fmt.Errorf("%s: %w", phase.name, err)
		}
	}
	return nil
}

// progress prints a message to the user. The results go to stdout.
func progress(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", arguments...)
}
