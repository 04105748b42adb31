package contract_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warren-mq/warren/consumer/contract"
)

func TestDefaultIsValid(t *testing.T) {
	t.Parallel()
	if err := contract.Default("orders").Validate(); err != nil {
		t.Error(err)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	want := contract.Default("orders")
	want.ConfigMap = "shop/orders-contract"
	want.Paused = &contract.Pause{ID: "k3v9q2m7xa", Until: time.Date(2026, 11, 26, 8, 10, 0, 0, time.UTC)}
	document, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := contract.Parse(document)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("contract (-want +got):\n%s", diff)
	}
	later := strings.Replace(string(document), `"queue"`, `"fieldOfALaterVersion": 1, "queue"`, 1)
	if _, err := contract.Parse([]byte(later)); err != nil {
		t.Errorf("a field of a later version: %v", err)
	}
}

func TestParseRefusesInvalidContracts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*contract.Contract)
		want   string
	}{
		"another apiVersion":          {func(c *contract.Contract) { c.APIVersion = "contract.warren.dev/v2" }, "upgrade the library"},
		"no queue":                    {func(c *contract.Contract) { c.Queue = "" }, "queue is missing"},
		"no virtual host":             {func(c *contract.Contract) { c.VirtualHost = "" }, "virtualHost is missing"},
		"another strategy":            {func(c *contract.Contract) { c.Strategy = "Hope" }, `strategy is "Hope"`},
		"no attempts":                 {func(c *contract.Contract) { c.MaxAttempts = 0 }, "maxAttempts is 0"},
		"no tiers":                    {func(c *contract.Contract) { c.Tiers = nil }, "tiers are missing"},
		"Reject with three tiers":     {func(c *contract.Contract) { c.Strategy, c.RejectDeadLetters = contract.StrategyReject, false }, "tiers has 3 entries: strategy Reject needs exactly one"},
		"Requeue with tiers":          {func(c *contract.Contract) { c.Strategy = contract.StrategyRequeue }, "tiers has 3 entries: strategy Requeue uses none"},
		"no consumer timeout":         {func(c *contract.Contract) { c.ConsumerTimeout = new(contract.Duration) }, "consumerTimeoutMilliseconds is less than 1"},
		"a tier without a delay":      {func(c *contract.Contract) { c.Tiers[1].Delay = 0 }, "tiers[1].delayMilliseconds"},
		"a tier without a route":      {func(c *contract.Contract) { c.Tiers[1].RoutingKey = "" }, "tiers[1].routingKey"},
		"a DLQ without a route":       {func(c *contract.Contract) { c.Park, c.RejectDeadLetters = nil, false }, "park is missing: name the route to the dead-letter queue"},
		"rejects without a route":     {func(c *contract.Contract) { c.Park, c.DeadLetterQueue = nil, "" }, "remove deadLetterQueue and rejectDeadLetters"},
		"parking without a route":     {func(c *contract.Contract) { c.Park = &contract.Route{} }, "park.routingKey"},
		"Reject that dead-letters":    {func(c *contract.Contract) { c.Strategy, c.Tiers = contract.StrategyReject, c.Tiers[:1] }, "rejectDeadLetters must be false"},
		"a pause without an ID":       {func(c *contract.Contract) { c.Paused = &contract.Pause{Until: time.Now()} }, "paused.id or paused.until"},
		"a pause without an end":      {func(c *contract.Contract) { c.Paused = &contract.Pause{ID: "k3v9q2m7xa"} }, "paused.id or paused.until"},
		"two things at the same time": {func(c *contract.Contract) { c.Queue, c.MaxAttempts = "", 0 }, "maxAttempts is 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := contract.Default("orders")
			test.change(&c)
			document, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			if _, err = contract.Parse(document); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("want %q, got %v", test.want, err)
			}
		})
	}
	for name, document := range map[string]string{
		"no JSON":            `{`,
		"a delay in words":   `{"tiers": [{"delayMilliseconds": "30s"}]}`,
		"a negative delay":   `{"tiers": [{"delayMilliseconds": -1}]}`,
		"half a millisecond": `{"tiers": [{"delayMilliseconds": 0.5}]}`,
		"a delay of 50 days": `{"tiers": [{"delayMilliseconds": 4320000000}]}`,
		"a pause in words":   `{"paused": {"id": "k3v9q2m7xa", "until": "tomorrow"}}`,
	} {
		if _, err := contract.Parse([]byte(document)); err == nil || !strings.HasPrefix(err.Error(), "read contract: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "contract.json")
	if _, err := contract.File(path).Load(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	for _, queue := range []string{"orders", "invoices"} {
		document, err := json.Marshal(contract.Default(queue))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, document, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := contract.File(path).Load(t.Context()); err != nil || got.Queue != queue {
			t.Errorf("%q: got %q, %v", queue, got.Queue, err)
		}
	}
	if err := os.WriteFile(path, []byte(`{}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := contract.File(path).Load(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("an empty contract: %v", err)
	}
}

func TestDurationString(t *testing.T) {
	t.Parallel()
	for duration, want := range map[time.Duration]string{
		30 * time.Second: "30s", 90 * time.Minute: "1h30m", time.Hour: "1h", 200 * time.Millisecond: "200ms", 0: "0s", 61 * time.Second: "1m1s", 3601 * time.Second: "1h0m1s",
	} {
		if got := contract.Duration(duration).String(); got != want {
			t.Errorf("%s is written as %q, not %q", duration, got, want)
		}
	}
}

// Attempts begin with 1 and a message is never retried forever, whatever headers a producer sends.
func FuzzDecide(f *testing.F) {
	f.Add(int64(3), int64(2), "7", 1.5, true)
	f.Add(int64(-1), int64(1)<<62, "", 1e300, false)
	f.Fuzz(func(t *testing.T, retries, deaths int64, text string, number float64, redelivered bool) {
		for _, value := range []any{retries, text, number, nil, []any{text}, uint8(retries)} {
			facts := contract.Facts{Redelivered: redelivered, Headers: map[string]any{
				contract.HeaderRetryCount: value, "x-delivery-count": value, contract.HeaderOriginalExchange: value,
				"x-death": []any{map[string]any{"queue": "orders", "reason": "rejected", "count": deaths, "routing-keys": value}, value},
			}}
			for _, c := range []contract.Contract{contract.Default("orders"), rejecting()} {
				progress := c.Progress(facts)
				if progress.Attempt < 1 || progress.Crashes < 0 {
					t.Errorf("%s: %+v", c.Strategy, progress)
				}
				action := c.Decide(facts, contract.Outcome{Result: contract.ResultFailed, Text: text})
				if action.GivenUp != (progress.Attempt >= c.MaxAttempts) {
					t.Errorf("%s: attempt %d of %d, given up: %t", c.Strategy, progress.Attempt, c.MaxAttempts, action.GivenUp)
				}
				if count, copied := action.Headers[contract.HeaderRetryCount]; copied && count != int64(progress.Attempt) {
					t.Errorf("%s: after attempt %d the copy says %v", c.Strategy, progress.Attempt, count)
				}
			}
		}
	})
}

// A producer can set the headers. On a 32-bit platform, no int is higher than math.MaxInt32.
func TestTheHighestCountsAreParked(t *testing.T) {
	t.Parallel()
	requeuing := contract.Default("orders")
	requeuing.Strategy, requeuing.Tiers, requeuing.RejectDeadLetters = contract.StrategyRequeue, nil, false
	none := contract.Default("orders")
	none.Strategy, none.Tiers = contract.StrategyNone, nil
	facts := contract.Facts{RoutingKey: "orders", Redelivered: true, Headers: map[string]any{
		contract.HeaderRetryCount: int64(math.MaxInt32), contract.HeaderDeferCount: int64(math.MaxInt32), "x-delivery-count": int64(math.MaxInt32),
		"x-death": []any{map[string]any{"queue": "orders", "reason": "rejected", "count": int64(math.MaxInt32)}},
	}}
	for _, c := range []contract.Contract{contract.Default("orders"), rejecting(), requeuing, none} {
		t.Run(string(c.Strategy), func(t *testing.T) {
			t.Parallel()
			if attempt := c.Progress(facts).Attempt; attempt < 1 {
				t.Errorf("attempt %d", attempt)
			}
			if action := c.Decide(facts, contract.Outcome{Result: contract.ResultFailed}); !action.GivenUp {
				t.Errorf("not given up: %+v", action)
			}
			deferred := c.Decide(facts, contract.Outcome{Result: contract.ResultDeferred})
			if count, copied := deferred.Headers[contract.HeaderDeferCount]; copied && count != int64(math.MaxInt32)+1 {
				t.Errorf("deferred %v times", count)
			}
		})
	}
}

func rejecting() contract.Contract {
	c := contract.Default("orders")
	c.Strategy, c.Tiers, c.RejectDeadLetters = contract.StrategyReject, c.Tiers[:1], false
	c.Park = &contract.Route{RoutingKey: "orders.dlq"}
	return c
}

func TestFailureTextsAreTruncatedBetweenCharacters(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", contract.MaxFailureMessageBytes)
	action := contract.Default("orders").Decide(contract.Facts{}, contract.Outcome{Result: contract.ResultFailed, Text: "x" + long})
	message, _ := action.Headers[contract.HeaderFailureMessage].(string)
	if want := "x" + long[:contract.MaxFailureMessageBytes-2]; message != want {
		t.Errorf("the message has %d bytes, not %d", len(message), len(want))
	}
}
