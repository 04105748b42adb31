package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/testenv/program"
)

// programVariable makes this test binary the program to test.
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

// patient has the default limits, extended for a busy machine.
var patient = limits{
	start: defaults.start, event: deadline.For(defaults.event), anyEvent: deadline.For(defaults.anyEvent), end: deadline.For(defaults.end),
}

// The pitfalls that -short tries: one of counting, copying, connecting and ending.
const quick = "wrong-attempts,acks-unconfirmed,no-reconnect,drain-repeats"

func TestTheLibraryPasses(t *testing.T) {
	t.Parallel()
	for strategy := range specs {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			if strategy != contract.StrategyPublish { // one strategy is enough to test library and runner together
				deadline.InTestAll(t)
			}
			names := ""
			if testing.Short() {
				names = quick
			}
			passes(t, "library", strategy, names, nil)
		})
	}
}

// These pitfalls disturb all clients of the broker.
func TestPitfallsThatNeedAPrivateBroker(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a private broker")
	}
	private := brokers.NewPrivate(t)
	passes(t, "library", contract.StrategyPublish, "stops-in-alarm,broker-restart", private)
	passes(t, string(noFault), contract.StrategyPublish, "stops-in-alarm", private)
	for _, fault := range []fault{sharesConnection, ignoresBlocked} {
		fails(t, fault, contract.StrategyPublish, "stops-in-alarm", "", 0, private)
	}
	fails(t, staysDisconnected, contract.StrategyPublish, "broker-restart", "still wait", 0, private)
	fails(t, acksInBatches, contract.StrategyPublish, "broker-restart", "were handled again", 0, private)
}

// A correct program without the library passes, too: the command requires nothing that only the library does.
func TestAProgramWithoutFaultsPasses(t *testing.T) {
	t.Parallel()
	deadline.InTestAll(t)
	passes(t, string(noFault), contract.StrategyPublish, "", nil)
}

// The limits of a trial begin when the program consumes.
func TestAProgramMayStartSlowly(t *testing.T) {
	t.Parallel()
	deadline.InTestAll(t)
	waits := patient
	waits.event, waits.anyEvent = 15*time.Second, 15*time.Second
	results, report := conformance(t, string(startsSlowly), contract.StrategyPublish, "retries-permanent", waits, nil)
	if results[0].failed() || results[0].err != nil {
		t.Error(report)
	}
}

func passes(t *testing.T, name string, strategy contract.Strategy, pitfalls string, private *brokers.Private) {
	t.Helper()
	results, report := conformance(t, name, strategy, pitfalls, patient, private)
	for _, r := range results {
		if r.failed() || r.err != nil {
			t.Errorf("%s: %d lost, %d repeated, %q, %v", r.pitfall.name, r.lost, r.repeated, r.mistakes, r.err)
		}
	}
	t.Log(report)
}

// Each pitfall is found in a program with this one fault.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	for fault, want := range map[fault]struct {
		pitfall  string
		lost     int    // at least
		mistake  string // part of the expected mistake; empty if the trial reports only one
		quick    bool
		strategy contract.Strategy // Publish unless set
	}{
		acksBefore:             {pitfall: "acks-first", lost: 1, quick: true},
		acksMultiple:           {pitfall: "acks-others", lost: 1},
		acksCopiesMultiple:     {pitfall: "acks-others", lost: 1},
		rejectsMultiple:        {pitfall: "acks-others", strategy: contract.StrategyReject},
		acksTwice:              {pitfall: "acks-others", mistake: "unknown delivery tag"},
		keepsContract:          {pitfall: "old-contract"},
		forgetsAttempts:        {pitfall: "wrong-attempts"},
		requeuesFailures:       {pitfall: "no-delay"},
		alwaysFirstTier:        {pitfall: "no-delay"},
		alwaysLastTier:         {pitfall: "no-delay"},
		retriesAll:             {pitfall: "retries-permanent"},
		trustsCounts:           {pitfall: "forged-counts"},
		oneHandler:             {pitfall: "blocks-on-hang"},
		noPrefetch:             {pitfall: "unbounded-prefetch"},
		dropsProperties:        {pitfall: "changes-copies"},
		copiesAll:              {pitfall: "copies-too-much"},
		notMandatory:           {pitfall: "loses-returned", lost: 1},
		parksWithoutMandatory:  {pitfall: "loses-returned", lost: 1},
		ignoresNegative:        {pitfall: "loses-refused", lost: 1},
		noConfirms:             {pitfall: "acks-unconfirmed", lost: 1},
		exitsWhenForbidden:     {pitfall: "forbidden-loops"},
		staysDisconnected:      {pitfall: "no-reconnect"},
		twoConsumers:           {pitfall: "second-consumer"},
		reconnectsWithoutDelay: {pitfall: "hot-reconnect"},
		latestChannel:          {pitfall: "stale-acks", lost: 1},
		noHeartbeats:           {pitfall: "misses-stall"},
		ignoresCancel:          {pitfall: "misses-cancel", mistake: "cancelled its consumer"},
		ignoresChannelClose:    {pitfall: "misses-cancel", mistake: "closed its channel"},
		ignoresSignal:          {pitfall: "ignores-sigterm"},
		closesImmediately:      {pitfall: "drain-repeats"},
		neverPauses:            {pitfall: "ignores-pause"},
		noCopyID:               {pitfall: "changes-copies,new-copy-ids"},
		noFailureMessage:       {pitfall: "changes-copies"},
		noFailureTime:          {pitfall: "changes-copies"},
		noFailureClient:        {pitfall: "changes-copies"},
		copiesWithoutDelay:     {pitfall: "loses-returned,loses-refused"},
		opensWithoutDelay:      {pitfall: "forbidden-loops"},
		newIDs:                 {pitfall: "new-copy-ids"},
		copiesTwice:            {pitfall: "two-channels"},
		rejectsUnconfirmed:     {pitfall: "two-channels", mistake: "did not publish again"},
		noGuard:                {pitfall: "no-crash-guard"},
		holdsForever:           {pitfall: "holds-too-long"},
		blocksConnection:       {pitfall: "blocks-heartbeats"},
		keepsFourProperties:    {pitfall: "changes-copies"},
		copiesText:             {pitfall: "changes-copies"},
		copiesPlainHeaders:     {pitfall: "changes-copies"},
		copiesDeaths:           {pitfall: "copies-too-much"},
		keepsOldFailure:        {pitfall: "copies-too-much"},
		trustsForeignCounts:    {pitfall: "forged-counts"},
		exitsAtStart:           {pitfall: "hot-reconnect"},
		connectsWithoutTimeout: {pitfall: "hangs-on-connect"},
		returnsToOldest:        {pitfall: "loses-returned", lost: 1},
		acksOnSignal:           {pitfall: "acks-unconfirmed", lost: 1},
		keepsCopyChannels:      {pitfall: "leaks-channels"},
		connectsForEachCopy:    {pitfall: "leaks-channels"},
		handlesAgain:           {pitfall: "loses-returned", mistake: "was handled"},
		connectsInLoop:         {pitfall: "loses-returned", mistake: "the program connected"},
		trustsLostConfirms:     {pitfall: "new-copy-ids", mistake: "published only"},
		acksInBatches:          {pitfall: "no-reconnect", mistake: "were handled again"},
		waitsForBroker:         {pitfall: "ignores-sigterm", mistake: "did not exit"},
		exitsWithError:         {pitfall: "drain-repeats", mistake: "exited with"},
		forgetsLastAcks:        {pitfall: "drain-repeats", mistake: "were handled again"},
		noArgument:             {pitfall: "ignores-pause", mistake: "the argument"},
		pausesForever:          {pitfall: "ignores-pause", mistake: "after the pause ended"},
		pausesUntilRemoved:     {pitfall: "ignores-pause", mistake: "still in the contract"},
		ignoresSettings:        {pitfall: "breaks-order"},
		polls:                  {pitfall: "second-consumer"},
		copiesLost:             {pitfall: "no-reconnect,stale-acks", mistake: "although no handler failed"},
		acksNoRetried:          {pitfall: "wrong-attempts", mistake: "did not settle"},
		readsNextConfirm:       {pitfall: "loses-refused", lost: 1},
		returnsByMessageID:     {pitfall: "loses-returned", mistake: "accepted the first one"},
		retriesAllProperties:   {pitfall: "copies-too-much"},
		retriesRefused:         {pitfall: "loses-refused", lost: 1},
		retriesWithNewIDs:      {pitfall: "new-copy-ids", mistake: "was copied with"},
		acksThirds:             {pitfall: "blocks-on-hang", lost: 1},
		rotatesTiers:           {pitfall: "no-delay"},
		consumesLater:          {pitfall: "second-consumer"},
		twiceTheHandlers:       {pitfall: "unbounded-prefetch"},
		acksAtStart:            {pitfall: "acks-first", lost: 1},
		forgetsPause:           {pitfall: "ignores-pause", mistake: "during a pause"},
		startsInPause:          {pitfall: "ignores-pause", mistake: "during a pause"},
		countsReturns:          {pitfall: "no-crash-guard", mistake: "was dead-lettered instead of handled"},
		guardsEarly:            {pitfall: "no-crash-guard", mistake: "was dead-lettered instead of handled"},
		cancelsFirst:           {pitfall: "breaks-order", mistake: "began"},
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			if !want.quick { // one fault shows how the runner finds it
				deadline.InTestAll(t)
			}
			fails(t, fault, cmp.Or(want.strategy, contract.StrategyPublish), want.pitfall, want.mistake, want.lost, nil)
		})
	}
}

func fails(t *testing.T, fault fault, strategy contract.Strategy, pitfalls, mistake string, lost int, private *brokers.Private) {
	t.Helper()
	waits := patient
	waits.start, waits.event = 15*time.Second, 15*time.Second // most faults prevent one of these events, so a trial waits that long
	results, report := conformance(t, string(fault), strategy, pitfalls, waits, private)
	t.Log(report)
	for _, r := range results {
		found := slices.ContainsFunc(r.mistakes, func(text string) bool { return strings.Contains(text, mistake) })
		if r.err != nil || !found || r.lost < lost {
			t.Errorf("%q: %s must fail because of %q, and at least %d messages must be lost:\n%s", fault, r.pitfall.name, mistake, lost, report)
		}
	}
}

// conformance tries pitfalls with a program of these tests, on the shared broker unless private is given.
func conformance(
	t *testing.T, name string, strategy contract.Strategy, names string, waits limits, private *brokers.Private,
) (results []result, report string) {
	t.Helper()
	tried, err := selectPitfalls(names)
	if err != nil {
		t.Fatal(err)
	}
	settings := &settings{
		strategy: strategy, pitfalls: tried, limits: waits, logs: t.ArtifactDir(), followsPause: true,
		command: []string{"env", programVariable + "=" + name, os.Args[0]},
	}
	var out bytes.Buffer
	err = program.Run(t.Context(), func(p *program.Program) (err error) {
		broker := brokers.Newest(p)
		if private != nil {
			broker = private.Broker
		}
		results, err = tryAll(p, settings, broker, private, &out)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return results, out.String()
}

// CI reads the exit code.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	brokers.Newest(t) // otherwise run starts a broker
	command := func(name string) []string { return []string{"--", "env", programVariable + "=" + name, os.Args[0]} }
	for name, test := range map[string]struct {
		arguments string
		program   []string
		want      int
		logged    bool // the program's output is in the user's folder
	}{
		"a correct program":             {"-only leaks-channels", command(string(noFault)), 0, true},
		"a program that fails":          {"-only leaks-channels", command(string(keepsCopyChannels)), exitFailed, true},
		"a program that does not start": {"-only leaks-channels", []string{"--", "/does/not/exist"}, exitBroken, true},
		"no program":                    {"-only leaks-channels", nil, exitBroken, false},
		"an unknown flag":               {"-hope", command(string(noFault)), exitBroken, false},
		"a skipped pitfall":             {"-only leaks-channels,ignores-pause", command(string(noFault)), exitBroken, true},
		"only a skipped pitfall":        {"-only ignores-pause", command(string(noFault)), exitBroken, false},
		"an unknown pitfall":            {"-only hope", command(string(noFault)), exitBroken, false},
		"a list":                        {"-list", nil, 0, false},
		"help":                          {"-help", nil, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			logs := t.TempDir()
			arguments := append([]string{"-logs", logs}, strings.Fields(test.arguments)...)
			if got := run(t.Context(), append(arguments, test.program...), patient); got != test.want {
				t.Errorf("%q: exit code %d instead of %d", arguments, got, test.want)
			}
			if _, err := os.Stat(filepath.Join(logs, "leaks-channels.log")); (err == nil) != test.logged {
				t.Errorf("%q: the program's output: %v", arguments, err)
			}
		})
	}
}

// The output may show why a trial did not run.
func TestTheOutputOfATrialWithAnErrorIsKept(t *testing.T) {
	t.Parallel()
	settings, err := readFlags([]string{"-only", "leaks-channels", "--", "true"}, defaults)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(settings.logs) })
	var out bytes.Buffer
	err = program.Run(t.Context(), func(p *program.Program) error {
		results, err := tryAll(p, settings, brokers.Broker{}, nil, &out) // without a version, a trial cannot begin
		if err == nil && results[0].err == nil {
			t.Error("the trial has no error")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(settings.logs); err != nil || !strings.Contains(out.String(), settings.logs) {
		t.Errorf("%v:\n%s", err, out.String())
	}
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		arguments string
		want      string
	}{
		"no program":         {"", "no program to test"},
		"another strategy":   {"-strategy Hope -- true", `-strategy "Hope"`},
		"an unknown pitfall": {"-only acks-first,typo -- true", `-only "typo" is not a pitfall`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := readFlags(strings.Fields(test.arguments), defaults); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("want %q, got %v", test.want, err)
			}
		})
	}
}
