package safedelete_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/crashpoint"
	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/netfault"
	"github.com/warren-mq/warren/test/rabbittest"
)

// meeting is a reusable barrier: calls wait for each other, so that their queues are deleted in one batch.
type meeting struct {
	mu      sync.Mutex
	size    int
	present int
	all     chan struct{} // closed when all have joined
}

func meetingOf(size int) *meeting { return &meeting{size: size, all: make(chan struct{})} }

// join returns when all calls have joined, or after a time: a call whose queue is not empty ends before.
func (m *meeting) join() {
	m.mu.Lock()
	all := m.all
	if m.present++; m.present == m.size {
		m.present, m.all = 0, make(chan struct{})
		close(all)
	}
	m.mu.Unlock()
	select {
	case <-all:
	case <-time.After(rabbittest.Within / 10):
	}
}

// deleteTogether deletes groups of queues in one batch, if possible, and returns the error of each group by its first queue. It
// calls between between two steps of a batch.
func deleteTogether(t *testing.T, connection *rabbittest.Connection, groups [][]string, between func(step string) bool) map[string]error {
	t.Helper()
	together := meetingOf(len(groups))
	connection.Deleter.Crash = func(step string) bool {
		if step == safedelete.StepPrechecked {
			together.join()
			return true
		}
		return between(step)
	}
	results := map[string]error{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, group := range groups {
		all.Go(func() {
			err := deleteNow(t.Context(), connection, group...)
			mu.Lock()
			defer mu.Unlock()
			results[group[0]] = err
		})
	}
	all.Wait()
	return results
}

func mustDeleteAll(t *testing.T, connection *rabbittest.Connection, groups [][]string) {
	t.Helper()
	mustHaveDeleted(t, connection, groups, deleteTogether(t, connection, groups, func(string) bool { return true }))
}

// mustHaveDeleted fails the test for each group that was not deleted. It deletes a group again if the broker was too slow for the proof that
// its queues are empty, as on a busy machine.
func mustHaveDeleted(t *testing.T, connection *rabbittest.Connection, groups [][]string, results map[string]error) {
	t.Helper()
	for _, group := range groups {
		if err := untilProved(results[group[0]], func() error { return deleteNow(t.Context(), connection, group...) }); err != nil {
			t.Errorf("%v: %v", group, err)
		}
	}
}

// tierAndMain declares a main queue with a tier, and returns both in the order in which they are deleted.
func tierAndMain(vh *brokers.VHost, name string) []string {
	vh.DeclareQueue(name, rabbittest.Quorum(nil))
	vh.DeclareQueue(name+".retry.60s", rabbittest.Quorum(vhost.Arguments{
		"x-message-ttl": int64(60000), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": name,
		"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
	}))
	return []string{name + ".retry.60s", name}
}

// The groups of a batch are independent. A group that is not empty behind the fence is retained, with the error of a single
// deletion. The other groups are deleted.
func TestTheGroupsOfABatchAreIndependent(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		step    string
		trouble func(t *testing.T, vh *brokers.VHost)
		repeats bool // the trouble happens in each attempt
		reason  error
		says    string
		left    int
	}{
		"a message arrives before the fence is closed": {
			step:    safedelete.StepFenced,
			trouble: func(_ *testing.T, vh *brokers.VHost) { vh.Publish("", "troubled", "in between") },
			reason:  brokererr.ErrNotEmpty, says: `not empty: queue "troubled" holds 1 message`, left: 1,
		},
		"a consumer subscribes": {
			step: safedelete.StepSettled,
			trouble: func(t *testing.T, vh *brokers.VHost) {
				rabbittest.Holding(t, vh, func(ch *amqp.Channel) error {
					_, err := ch.Consume("troubled", "", false, false, false, false, nil)
					return err
				})
			},
			reason: brokererr.ErrNotEmpty, says: `not empty: queue "troubled" has 1 consumer`,
		},
		"a policy overrides the fence after the proof": {
			step: safedelete.StepProven,
			trouble: func(_ *testing.T, vh *brokers.VHost) {
				vh.SetPolicy("urgent", brokers.Policy{
					Pattern: "^troubled$", ApplyTo: "queues", Priority: 5000, Definition: map[string]any{"max-length": 10},
				})
			},
			reason: brokererr.ErrUnproven, says: `queue "troubled": policy "urgent" overrides the fence: its priority is 5000`,
		},
		"the queue was declared again": {
			step: safedelete.StepSettled,
			trouble: func(_ *testing.T, vh *brokers.VHost) {
				vh.DeleteQueue("troubled")
				vh.DeclareQueue("troubled", rabbittest.Quorum(nil))
			},
			repeats: true,
			reason:  brokererr.ErrUnproven, says: `not proven empty: queue "troubled": another client took one of Warren's sentinels`,
		},
		"a dead letter is pending": {
			step: safedelete.StepFenced, trouble: func(*testing.T, *brokers.VHost) {},
			reason: brokererr.ErrPending, says: `not empty: queue "troubled" holds messages that wait to be dead-lettered`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
				pending := errors.Is(test.reason, brokererr.ErrPending)
				vh.DeclareQueue("troubled", rabbittest.Quorum(map[bool]vhost.Arguments{true: pendingArguments}[pending]))
				if pending {
					putAside(t, vh, "troubled", false)
				}
				groups := [][]string{{"troubled"}}
				for i := range 8 {
					groups = append(groups, tierAndMain(vh, fmt.Sprintf("orders-%d", i)))
				}
				connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil)
				once := &sync.Once{}
				results := deleteTogether(t, connection, groups, func(step string) bool {
					if step == test.step && slices.Contains(queuesBehindFences(t, connection), "troubled") {
						once.Do(func() { test.trouble(t, vh) })
					}
					return true
				})
				mustHaveDeleted(t, connection, groups[1:], results)
				err := untilAnswered(results["troubled"], func() error {
					if test.repeats {
						once = &sync.Once{}
					}
					return deleteNow(t.Context(), connection, "troubled")
				})
				rabbittest.MustBe(t, err, test.reason, test.says)
				left := vh.Definitions().Queues
				if len(left) != 1 || left[0].Name != "troubled" {
					t.Fatalf("%+v are left", left)
				}
				rabbittest.Holds(t, vh, "troubled", test.left)
				mustBeClean(t, vh)
			})
		})
	}
}

// Queues under different policies are deleted at the same time behind separate fences. When a fence is lifted, its queues have their
// former policy again.
func TestGroupsUnderDifferentPolicies(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		var groups [][]string
		for i := range 4 {
			groups = append(groups, tierAndMain(vh, fmt.Sprintf("orders-%d", i)), tierAndMain(vh, fmt.Sprintf("limited-%d", i)))
		}
		vh.SetPolicy("limited", brokers.Policy{Pattern: "^limited-", ApplyTo: "queues", Definition: map[string]any{"max-length": 10}})
		connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil)
		var mu sync.Mutex
		mixed := false
		results := deleteTogether(t, connection, groups, func(string) bool {
			policies, err := connection.API.Policies(t.Context())
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, policy := range policies {
				queues := fence.QueuesOf(policy.Pattern.String())
				limited := slices.ContainsFunc(queues, func(queue string) bool { return strings.HasPrefix(queue, "limited") })
				plain := slices.ContainsFunc(queues, func(queue string) bool { return strings.HasPrefix(queue, "orders") })
				mixed = mixed || limited && plain
			}
			return true
		})
		mustHaveDeleted(t, connection, groups, results)
		if connection.LastDeletion().IsZero() || connection.Stats().DeletionsWaiting > 0 {
			t.Errorf("last deletion at %v, %d are waiting", connection.LastDeletion(), connection.Stats().DeletionsWaiting)
		}
		if left := vh.Definitions().Queues; mixed || len(left) > 0 {
			t.Errorf("one fence for both: %t; left: %+v", mixed, left)
		}
		mustBeClean(t, vh)
	})
}

// queuesBehindFences returns the queues that fences stop from accepting messages.
func queuesBehindFences(t *testing.T, connection *rabbittest.Connection) []string {
	t.Helper()
	return slices.Concat(queuesByFence(t, connection)...)
}

// queuesByFence returns the queues behind each fence.
func queuesByFence(t *testing.T, connection *rabbittest.Connection) (queues [][]string) {
	t.Helper()
	policies, err := connection.API.Policies(t.Context())
	if err != nil {
		t.Error(err)
	}
	for _, policy := range policies {
		if _, own := fence.ParseName(policy.Name); own {
			queues = append(queues, fence.QueuesOf(policy.Pattern.String()))
		}
	}
	return queues
}

// No message that the broker confirmed is lost while publishers publish to forty queues, consumers come and go, and all of
// them are deleted behind one fence.
func TestNothingIsLostWhileABatchIsHammered(t *testing.T) {
	deadline.InTestAll(t)
	const queues, rounds, idle = 40, 3, 28
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil)
		together := meetingOf(queues)
		connection.Deleter.Crash = func(step string) bool {
			if step == safedelete.StepPrechecked {
				together.join()
			}
			return true
		}
		var hammers []*hammer
		for i := range queues {
			queue := fmt.Sprintf("orders-%d", i)
			vh.DeclareQueue(queue, rabbittest.Quorum(nil))
			hammers = append(hammers, newHammer(t, vh, connection, queue, 1))
		}
		for round := range rounds {
			var all sync.WaitGroup
			for i, place := range rand.Perm(queues) {
				h := hammers[i]
				h.idle = place < idle
				all.Go(func() { h.trial(round) })
			}
			all.Wait()
			if t.Failed() {
				return
			}
		}
		deleted, kept, confirmed, sentinels := 0, 0, 0, 0
		for _, h := range hammers {
			deleted, kept, confirmed, sentinels = deleted+h.deleted, kept+h.kept, confirmed+h.confirmed, sentinels+h.sentinels
		}
		if deleted == 0 || kept == 0 {
			t.Errorf("%s: deleted %d times, not deleted %d times", vh.Broker.Version, deleted, kept)
		}
		t.Logf("%s: deleted %d times, not deleted %d times; %d messages confirmed; sentinels were left %d times",
			vh.Broker.Version, deleted, kept, confirmed, sentinels)
		mustBeClean(t, vh)
	})
}

// Whichever step of a batch a crash interrupts, the next connection removes the fence, and the sentinels from all queues.
func TestCrashedBatchIsCleanedUp(t *testing.T) {
	t.Parallel()
	for _, step := range append(slices.Clone(steps), safedelete.StepOne, safedelete.StepOpened) {
		t.Run(step, func(t *testing.T) {
			if step != safedelete.StepOne {
				deadline.InTestAll(t)
			}
			rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
				config := rabbittest.ConfigOf(vh)
				config.Owner = "owner"
				var groups [][]string
				for i := range 10 {
					groups = append(groups, tierAndMain(vh, fmt.Sprintf("orders-%d", i)))
				}
				connection := rabbittest.Connected(t, config, nil)
				results := deleteTogether(t, connection, groups, func(now string) bool {
					if step == safedelete.StepOpened && now == safedelete.StepSettled { // this step runs only if a deletion fails
						connection.Deleter.Stop(0)
					}
					return now != step
				})
				for name, err := range results {
					if !errors.Is(err, crashpoint.ErrCrashed) && (err != nil || step != safedelete.StepOne) {
						t.Errorf("%s: %v", name, err)
					}
				}
				if fences := queuesBehindFences(t, connection); len(fences) < 10 {
					t.Errorf("fences stand before %q", fences)
				}
				connection.Close()
				again := rabbittest.ConnectedWith(t, config, impatient(100*time.Millisecond))
				NewWithT(t).Eventually(func(g Gomega) { // takes half a minute if a sentinel may have expired
					g.Expect(again.Refresh(t.Context())).To(Succeed())
					g.Expect(queuesBehindFences(t, again)).To(BeEmpty())
				}).WithTimeout(2 * rabbittest.Within).WithPolling(50 * time.Millisecond).Should(Succeed())
				for _, queue := range vh.Definitions().Queues {
					rabbittest.Holds(t, vh, queue.Name, 0) // no sentinel is left
				}
				mustBeClean(t, vh)
			})
		})
	}
}

// If the broker does not list the queues of a batch, Warren requests each queue separately.
func TestABatchWhereListingsFail(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		var groups [][]string
		for i := range 4 {
			groups = append(groups, tierAndMain(vh, fmt.Sprintf("orders-%d", i)))
		}
		management := netfault.NewHTTPProxy(t, vh.Broker.ManagementURI, netfault.HTTPOptions{})
		failed := 0
		var mu sync.Mutex
		management.Change(func(response *http.Response) error {
			path := response.Request.URL.Path
			listed := strings.Contains(path, "/api/queues/") && response.Request.URL.Query().Get("use_regex") != ""
			if !listed && !strings.Contains(path, "/api/bindings/") {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			failed++
			response.StatusCode = http.StatusInternalServerError
			netfault.Replace(response, `{"error": "internal"}`)
			return nil
		})
		config := rabbittest.ConfigOf(vh)
		config.ManagementURI = management.URI
		connection := rabbittest.Connected(t, config, nil)
		mustDeleteAll(t, connection, groups)
		if failed == 0 {
			t.Errorf("%d listings failed", failed)
		}
		mustBeClean(t, vh)
	})
}

// A broker takes so long to list many queues that the callers' answers are too old. Smaller batches are fast enough.
func TestABatchWhosePlanTakesLongIsDivided(t *testing.T) {
	t.Parallel()
	deadline.InTestAll(t)
	vh := brokers.Newest(t).NewVHost(t)
	var groups [][]string
	for i := range 4 {
		groups = append(groups, tierAndMain(vh, fmt.Sprintf("orders-%d", i)))
	}
	management := netfault.NewHTTPProxy(t, vh.Broker.ManagementURI, netfault.HTTPOptions{})
	management.Before(func(request *http.Request) {
		if request.URL.Query().Get("use_regex") != "" {
			time.Sleep(6 * time.Second)
		}
	})
	config := rabbittest.ConfigOf(vh)
	config.ManagementURI = management.URI
	connection := rabbittest.Connected(t, config, nil)
	results := deleteTogether(t, connection, groups, func(string) bool {
		for _, queues := range queuesByFence(t, connection) {
			if len(queues) > 4 {
				t.Errorf("one fence stands before %q", queues)
			}
		}
		return true
	})
	mustHaveDeleted(t, connection, groups, results)
	mustBeClean(t, vh)
}

// The broker removes a fence, and its answer is lost. Unlike a fence that still exists, it does not block other deletions.
func TestTheAnswerToTheRemovalOfAFenceIsLost(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("orders", rabbittest.Quorum(nil))
		management := netfault.NewHTTPProxy(t, vh.Broker.ManagementURI, netfault.HTTPOptions{})
		management.Change(func(response *http.Response) error {
			if response.Request.Method == http.MethodDelete && strings.Contains(response.Request.URL.Path, "/api/policies/") {
				response.StatusCode = http.StatusInternalServerError
			}
			return nil
		})
		config := rabbittest.ConfigOf(vh)
		config.ManagementURI = management.URI
		connection := rabbittest.Connected(t, config, nil)
		if err := deleteNow(t.Context(), connection, "orders"); err != nil {
			t.Fatal(err)
		}
		mustBeClean(t, vh)
		management.Change(nil)
		NewWithT(t).Eventually(connection.Fences).WithTimeout(rabbittest.Within).Should(BeEmpty())
	})
}

// Warren reads queues with a single active consumer by basic.consume, not basic.get: the queues of many groups one after the other, on one
// channel.
func TestSingleActiveConsumersTogether(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil)
		var groups [][]string
		for number := range 12 {
			queue := fmt.Sprintf("orders-%d", number)
			vh.DeclareQueue(queue, rabbittest.Quorum(vhost.Arguments{"x-single-active-consumer": true}))
			groups = append(groups, []string{queue})
		}
		mustDeleteAll(t, connection, groups)
	})
}

// untilAnswered deletes again for as long as the broker is too slow for the proof that a queue is empty, as on a busy machine. It returns
// the last error.
func untilAnswered(err error, again func() error) error {
	isSlow := func(err error) bool { return err != nil && slow.MatchString(err.Error()) }
	for end := time.Now().Add(rabbittest.Within); isSlow(err) && time.Now().Before(end); {
		err = again()
	}
	return err
}

var slow = regexp.MustCompile("does not answer within|it took longer than|missed its deadline")

// untilProved deletes again for as long as the error of a deletion is ErrUnproven, and returns the last error.
func untilProved(err error, again func() error) error {
	for end := time.Now().Add(rabbittest.Within); errors.Is(err, brokererr.ErrUnproven) && time.Now().Before(end); {
		err = again()
	}
	return err
}
