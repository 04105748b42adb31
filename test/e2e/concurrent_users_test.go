package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	deadletters "github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
)

const (
	// pairDeadLetters is the number of dead letters in a queue when a pair begins. A Redrive moves the first share of them, and a Purge
	// deletes the last share.
	pairDeadLetters = 2000
	share           = 100
	// pairLanes is the number of queues in use at the same time.
	pairLanes = 2
)

// pairCount returns the number of pairs; `make chaos-pairs` sets 500.
func pairCount() int {
	if given, err := strconv.Atoi(os.Getenv("WARREN_PAIRS")); err == nil {
		return given
	}
	return 12
}

// lane is a queue whose dead letters are used in pairs.
type lane struct {
	*world

	queue  string
	client *DeadLetterClient
	// jobs is the number of jobs created.
	jobs atomic.Int64
}

// verb uses the dead letters of a lane. It checks its numbers and reports whether it has seen all of them.
type verb func(l *lane, totals []int) (complete bool)

var verbs = map[string]verb{
	"browse": (*lane).browse, "export": (*lane).export, "count": (*lane).count, "Redrive": (*lane).move, "Purge": (*lane).purge,
	"consumer": (*lane).consume,
}

// fill makes the queue contain exactly its dead letters.
func (l *lane) fill() {
	GinkgoHelper()
	l.VHost.Purge(l.queue)
	l.VHost.Purge(l.queue + ".dlq")
	l.EventuallyMessages(l.queue+".dlq", BeZero())
	l.VHost.Send("", l.queue+".dlq", numbered(pairDeadLetters)...)
	l.EventuallyMessages(l.queue+".dlq", Equal(pairDeadLetters))
}

// pair starts two users at random moments and expects no wrong number. It reports whether both have seen all dead letters.
func (l *lane) pair(first, second string) (complete bool) {
	GinkgoHelper()
	l.fill()
	moves, deletes := first == "Redrive" || second == "Redrive", first == "Purge" || second == "Purge"
	totals := []int{pairDeadLetters}
	if moves || deletes {
		totals = append(totals, pairDeadLetters-share)
	}
	if moves && deletes {
		totals = append(totals, pairDeadLetters-2*share)
	}
	done := make([]bool, 2)
	var both sync.WaitGroup
	for i, name := range []string{first, second} {
		both.Go(func() {
			defer GinkgoRecover()
			<-time.After(rand.N(600 * time.Millisecond)) // the random moment is what is tested
			done[i] = verbs[name](l, totals)
		})
	}
	both.Wait()
	left, moved := pairDeadLetters, 0
	if moves {
		left, moved = left-share, share
	}
	if deletes {
		left -= share
	}
	l.EventuallyMessages(l.queue+".dlq", Equal(left))
	l.EventuallyMessages(l.queue, Equal(moved))
	return done[0] && done[1]
}

func (l *lane) jobName() string { return fmt.Sprintf("%s-%d", l.queue, l.jobs.Add(1)) }

// eventuallyGet repeats a request until its status is not 429.
func (l *lane) eventuallyGet(path string) (body []byte) {
	GinkgoHelper()
	Eventually(func() (code int) {
		code, body = l.client.Request("/" + l.queue + path)
		return code
	}).WithTimeout(deadline.For(2 * time.Minute)).Should(Equal(http.StatusOK))
	return body
}

func (l *lane) browse(totals []int) bool {
	GinkgoHelper()
	list := deadletters.DeadLetterList{}
	Expect(json.Unmarshal(l.eventuallyGet("/messages?limit=1000&bodyLimit=1"), &list)).To(Succeed())
	if !list.Partial {
		Expect(totals).To(ContainElement(BeEquivalentTo(list.Ready)), "browsed")
		Expect(list.Items).To(HaveLen(1000))
	}
	Expect(len(list.Items)).To(BeNumerically("<=", 1000))
	return !list.Partial
}

func (l *lane) export(totals []int) bool {
	GinkgoHelper()
	end := exportEnd(l.eventuallyGet("/export"))
	if end.Partial || end.Error != "" {
		return false
	}
	Expect(totals).To(ContainElement(BeEquivalentTo(end.Count)), "exported")
	Expect(end.Ready).To(Equal(end.Count))
	return true
}

func (l *lane) count(totals []int) bool {
	GinkgoHelper()
	ended := l.redriven(`dryRun: true`)
	if !isComplete(ended.Status.Conditions) {
		return false
	}
	Expect(totals).To(ContainElement(BeEquivalentTo(*ended.Status.Moved)), "counted")
	Expect(ended.Status.Total).To(Equal(ended.Status.Moved))
	return true
}

func (l *lane) move(totals []int) bool {
	GinkgoHelper()
	ended := l.redriven(fmt.Sprintf(`rate: Unlimited, selector: {expression: "headers.n < %d"}`, share))
	Expect(*ended.Status.Moved).To(BeElementOf(int64(0), int64(share)), "moved") // another Redrive may have moved them first
	Expect(totals).To(ContainElement(BeEquivalentTo(*ended.Status.Total)), "total of a Redrive")
	return isComplete(ended.Status.Conditions)
}

// redriven creates a Redrive and waits for its end.
func (l *lane) redriven(spec string) *v1alpha1.Redrive {
	GinkgoHelper()
	name := l.jobName()
	l.Redrive(name, fmt.Sprintf(`{consumerQueueRef: {name: %s}, %s}`, l.queue, spec))
	Eventually(l.GetRedrive).WithArguments(name).WithTimeout(deadline.For(2 * time.Minute)).
		Should(HaveField("Status.CompletionTime", Not(BeNil())))
	return l.GetRedrive(name)
}

func (l *lane) purge(totals []int) bool {
	GinkgoHelper()
	name := l.jobName()
	l.Purge(name, fmt.Sprintf(`{consumerQueueRef: {name: %s}, expectedAtMost: %d, selector: {expression: "headers.n >= %d"}}`,
		l.queue, share, pairDeadLetters-share))
	Eventually(l.GetPurge).WithArguments(name).WithTimeout(deadline.For(2 * time.Minute)).
		Should(HaveField("Status.CompletionTime", Not(BeNil())))
	ended := l.GetPurge(name)
	Expect(*ended.Status.Deleted).To(BeElementOf(int64(0), int64(share)), "deleted")
	Expect(totals).To(ContainElement(BeEquivalentTo(*ended.Status.Total)), "total of a Purge")
	return isComplete(ended.Status.Conditions)
}

// consume receives some messages and requeues them after a while.
func (l *lane) consume([]int) bool {
	GinkgoHelper()
	connection, err := l.VHost.Connect("holds")
	Expect(err).NotTo(HaveOccurred())
	channel, err := connection.Channel()
	Expect(err).NotTo(HaveOccurred())
	Expect(channel.Qos(40, 0, false)).To(Succeed())
	_, err = channel.Consume(l.queue+".dlq", "", false, false, false, false, nil)
	Expect(err).NotTo(HaveOccurred())
	<-time.After(rand.N(2 * time.Second)) // the random time is what is tested
	Expect(connection.Close()).To(Succeed())
	return true
}

func isComplete(conditions []metav1.Condition) bool {
	return slices.ContainsFunc(conditions, func(condition metav1.Condition) bool {
		return condition.Type == v1alpha1.ConditionReady && condition.Status == metav1.ConditionTrue
	})
}

var _ = Describe("Two users of dead letters that begin at random moments", Label("pairs"), Extended, Long, func() {
	onEachBroker("report correct numbers, and see all dead letters unless a consumer holds some", func(broker brokers.Broker) {
		w := newWorld(broker)
		names := []string{"browse", "export", "count", "Redrive", "Purge", "consumer"}
		reader := w.deadLetterClient(admin)
		pairs := pairCount()
		var whole atomic.Int64
		var all sync.WaitGroup
		for number := range pairLanes {
			l := &lane{world: w, queue: fmt.Sprintf("orders-%d", number), client: reader}
			w.Queue(l.queue, `{}`)
			w.Ready(l.queue)
			all.Go(func() {
				defer GinkgoRecover()
				for i := number; i < pairs; i += pairLanes {
					first, second := names[1+i%4], names[(i/4)%len(names)]
					complete := l.pair(first, second)
					if second != "browse" && second != "consumer" {
						Expect(complete).To(BeTrue(), "%s beside %s", first, second)
					}
					if complete {
						whole.Add(1)
					}
				}
			})
		}
		all.Wait()
		AddReportEntry("pairs", ReportEntryVisibilityAlways, fmt.Sprintf("%d of %d pairs complete", whole.Load(), pairs))
		Expect(2 * int(whole.Load())).To(BeNumerically(">=", pairs))
	})
})
