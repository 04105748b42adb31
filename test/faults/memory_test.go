package faults

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
)

// memoryPercent is the percentage of a load's messages to use; `make bench-memory` uses all of them.
var memoryPercent = numberFrom("WARREN_MEMORY_PERCENT", 10)

// These are the limits for additional memory of a manager: for one verb, and for all verbs at the same time.
const (
	maxOfOne = 128 << 20
	maxOfAll = 256 << 20
)

// load is a list of message numbers and sizes for a queue, in order.
type load []struct{ messages, bytes int }

var loads = map[string]load{
	"2000 messages of 100 B, and 2000 of 1 MiB behind them": {{2000, 100}, {2000, 1 << 20}},
	"300 messages of 5 MiB":                                 {{300, 5 << 20}},
	"100 messages of 15 MiB":                                {{100, 15 << 20}},
}

// messages returns the number of messages.
func (l load) messages() (count int) {
	for _, kind := range l {
		count += max(1, kind.messages*memoryPercent/100)
	}
	return count
}

// These selectors match messages with even and odd numbers. Both parse the body of each message.
const (
	selectsEven = `selector: {expression: "headers.n % 2 == 0 && body.text != ''"}`
	selectsOdd  = `selector: {expression: "headers.n % 2 == 1 && body.text != ''"}`
)

// weighing is a manager with a private broker, whose memory is measured.
type weighing struct {
	*world

	manager *Manager
	client  *DeadLetterClient
	rest    int // memory of the idle manager in bytes
}

// newWeighing creates a ConsumerQueue for each name.
func newWeighing(names ...string) *weighing {
	GinkgoHelper()
	private := brokers.NewPrivate(GinkgoTB())
	private.Eval(`vm_memory_monitor:set_vm_memory_high_watermark({absolute, "6GB"}).`)
	w := &weighing{world: newStraightWorld(private.Broker)}
	server := NewDeadLetterServer()
	w.manager = kube.StartManager(managerBinary, []string{w.Namespace}, append(server.Flags(), uncounted)...)
	for _, name := range names {
		w.Queue(name, ordinary)
	}
	w.settled(len(names))
	w.client = w.DeadLetterClient(server, "looker", "deadletterqueue_admin_role")
	w.client.EventuallyStatus("/"+names[0]+"/messages", http.StatusOK)
	w.rest = memoryOf(w.manager)
	return w
}

// fill publishes a share of a load as dead letters.
func (w *weighing) fill(name string, l load) {
	GinkgoHelper()
	const batch = 32 << 20 // bytes
	number := int64(0)
	for _, kind := range l {
		body := []byte(fmt.Sprintf(`{"text": %q}`, strings.Repeat("x", kind.bytes-len(`{"text": ""}`))))
		for left := max(1, kind.messages*memoryPercent/100); left > 0; {
			messages := make([]amqp.Publishing, min(left, max(1, batch/kind.bytes)))
			for i := range messages {
				messages[i] = amqp.Publishing{DeliveryMode: amqp.Persistent, Headers: amqp.Table{"n": number}, Body: body}
				number++
			}
			w.VHost.Send("", name+".dlq", messages...)
			left -= len(messages)
		}
	}
	w.EventuallyMessages(name+".dlq", Equal(l.messages()))
}

// expectMemory runs a function, and expects that the manager's peak memory exceeds its memory at rest by at most limit bytes.
func (w *weighing) expectMemory(what string, limit int, do func()) {
	GinkgoHelper()
	pid := w.manager.Command.Process.Pid
	Expect(os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0o200)).To(Succeed()) // resets VmHWM
	began := time.Now()
	do()
	took := peakMemory(w.manager) - w.rest
	AddReportEntry("memory", ReportEntryVisibilityAlways, fmt.Sprintf("%s took %d MiB over %d MiB at rest, in %v",
		what, took>>20, w.rest>>20, time.Since(began).Round(time.Second)))
	Expect(took).To(BeNumerically("<=", limit), what)
}

// browse reads the first pages of a ConsumerQueue's dead letters.
func (w *weighing) browse(name string) {
	GinkgoHelper()
	position := int64(0)
	for range 3 {
		list := v1alpha1.DeadLetterList{}
		w.client.Get(fmt.Sprintf("/%s/messages?limit=1000&bodyLimit=1000000&position=%d", name, position), &list)
		if list.NextPosition == nil {
			return
		}
		position = *list.NextPosition
	}
}

// export reads all dead letters of a ConsumerQueue.
func (w *weighing) export(name string, l load) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		response, err := w.client.TryResponse("/" + name + "/export")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.StatusCode).To(Equal(http.StatusOK))
		messages, end := readExport(response)
		g.Expect(end).To(Equal(v1alpha1.ExportEnd{Kind: v1alpha1.KindExportEnd, Count: int64(messages), Ready: int64(l.messages())}))
		g.Expect(messages).To(Equal(l.messages()))
	}).WithTimeout(deadline.For(5 * time.Minute)).Should(Succeed())
}

// count, redrive and purge wait for jobs that process half of a ConsumerQueue's dead letters.
func (w *weighing) count(name string) {
	GinkgoHelper()
	w.Redrive("count-"+name, fmt.Sprintf(`{consumerQueueRef: {name: %s}, dryRun: true, %s}`, name, selectsEven))
	w.ends("Redrive", "count-"+name, "DryRun")
}

func (w *weighing) redrive(name string) {
	GinkgoHelper()
	w.Redrive("move-"+name, fmt.Sprintf(
		`{consumerQueueRef: {name: %s}, rate: Unlimited, maxDestinationDepth: Unlimited, %s}`, name, selectsEven))
	w.ends("Redrive", "move-"+name, "Completed")
}

func (w *weighing) purge(name string) {
	GinkgoHelper()
	w.Purge("purge-"+name, fmt.Sprintf(`{consumerQueueRef: {name: %s}, expectedAtMost: 10000, %s}`, name, selectsOdd))
	w.ends("Purge", "purge-"+name, "Completed")
}

func (w *weighing) ends(kind, name, reason string) {
	GinkgoHelper()
	ready := Condition("Ready", metav1.ConditionTrue, reason)
	if kind == "Purge" {
		Eventually(w.GetPurge).WithArguments(name).WithTimeout(deadline.For(5 * time.Minute)).Should(ready)
		return
	}
	Eventually(w.GetRedrive).WithArguments(name).WithTimeout(deadline.For(5 * time.Minute)).Should(ready)
}

var _ = Describe("The memory of a manager", Label("memory"), Extended, Long, func() {
	for name, messages := range loads {
		It("grows by less than 128 MiB for each verb, with "+name, func() {
			w := newWeighing("orders")
			w.fill("orders", messages)
			w.expectMemory("browse", maxOfOne, func() { w.browse("orders") })
			w.expectMemory("export", maxOfOne, func() { w.export("orders", messages) })
			w.expectMemory("count", maxOfOne, func() { w.count("orders") })
			w.expectMemory("Redrive", maxOfOne, func() { w.redrive("orders") })
			w.expectMemory("Purge", maxOfOne, func() { w.purge("orders") })
			w.EventuallyMessages("orders.dlq", BeZero())
		})

		It("grows by less than 256 MiB for all verbs at the same time, with a fifth of "+name+" for each", func() {
			fifth := make(load, len(messages))
			for i, kind := range messages {
				fifth[i].messages, fifth[i].bytes = kind.messages/5, kind.bytes
			}
			verbs := map[string]func(){}
			w := newWeighing("browsed", "exported", "counted", "moved", "purged")
			verbs["browsed"] = func() { w.browse("browsed") }
			verbs["exported"] = func() { w.export("exported", fifth) }
			verbs["counted"] = func() { w.count("counted") }
			verbs["moved"] = func() { w.redrive("moved") }
			verbs["purged"] = func() { w.purge("purged") }
			for name := range verbs {
				w.fill(name, fifth)
			}
			w.expectMemory("all verbs", maxOfAll, func() {
				var all sync.WaitGroup
				for _, verb := range verbs {
					all.Go(func() {
						defer GinkgoRecover()
						verb()
					})
				}
				all.Wait()
			})
		})
	}
})
