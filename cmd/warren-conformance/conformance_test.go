package main

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/test/testenv/program"
)

// programVariable has this test binary be the program that is tested.
const programVariable = "WARREN_CONFORMANCE_PROGRAM"

func TestMain(m *testing.M) {
	var err error
	switch name := os.Getenv(programVariable); name {
	case "":
		os.Exit(m.Run())
	case "library":
		err = libraryProgram()
	default:
		err = (&rawProgram{fault: fault(name)}).run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func TestTheLibraryPasses(t *testing.T) {
	t.Parallel()
	for strategy := range specs {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			results, report := conformance(t, "library", strategy, pitfalls)
			for _, r := range results {
				if r.failed() {
					t.Errorf("%s: %q", r.pitfall.name, r.seen)
				}
			}
			t.Log(report)
		})
	}
}

// Each pitfall is found in a program that makes this mistake and no other.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	for fault, want := range map[fault]string{
		acksBefore:        "acks-first",
		forgetsAttempts:   "wrong-attempts",
		requeuesFailures:  "no-delay",
		retriesAll:        "retries-permanent",
		trustsCounts:      "forged-counts",
		oneAtATime:        "blocks-on-hang",
		noPrefetch:        "unbounded-prefetch",
		dropsProperties:   "changes-copies",
		copiesAll:         "copies-too-much",
		notMandatory:      "loses-returned",
		ignoresNegative:   "loses-refused",
		noConfirms:        "acks-unconfirmed",
		staysDisconnected: "no-reconnect",
		twoConsumers:      "second-consumer",
		connectsAtOnce:    "hot-reconnect",
		latestChannel:     "stale-acks",
		noHeartbeats:      "misses-stall",
		ignoresCancel:     "misses-cancel",
		ignoresSignal:     "ignores-sigterm",
		closesAtOnce:      "drain-repeats",
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			tried, err := pick(want)
			if err != nil {
				t.Fatal(err)
			}
			results, report := conformance(t, string(fault), contract.Publish, tried)
			if !results[0].failed() {
				t.Errorf("not found\n%s", report)
			}
			t.Log(report)
		})
	}
}

func TestAProgramWithoutFaultsPasses(t *testing.T) {
	t.Parallel()
	results, report := conformance(t, string(noFault), contract.Publish, pitfalls)
	for _, r := range results {
		if r.failed() {
			t.Errorf("%s: %q", r.pitfall.name, r.seen)
		}
	}
	t.Log(report)
}

// conformance tries pitfalls with one of the programs of these tests.
func conformance(t *testing.T, name string, strategy contract.Strategy, tried []pitfall) (results []result, report string) {
	t.Helper()
	given := &settings{strategy: strategy, pitfalls: tried, logs: t.ArtifactDir(), command: []string{"env", programVariable + "=" + name, os.Args[0]}}
	var out bytes.Buffer
	err := program.Run(t.Context(), func(p *program.Program) (err error) {
		results, err = tryAll(p, given, &out)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return results, out.String()
}
