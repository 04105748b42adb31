package faults

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
)

// large is the number of messages with 64 kB to browse.
const large = 1000

// soon is the limit for messages to be ready again. An idle machine needs less than a second. A broker under load needed 6 s to
// requeue a quarter of the messages, which is why this limit, stretched by deadline.For, is 30 s.
const soon = 5 * time.Second

// browsing is a manager that serves the dead-letter API, and a client that may browse the large messages of orders.
type browsing struct {
	*world

	manager *Manager
	client  *DeadLetterClient
	restart func()
}

func newBrowsing() *browsing {
	GinkgoHelper()
	l := &browsing{world: newWorld(shared)}
	server := NewDeadLetterServer()
	l.restart = func() {
		GinkgoHelper()
		l.manager = kube.StartManager(managerBinary, []string{l.Namespace}, append(server.Flags(), uncounted)...)
	}
	l.restart()
	l.Queue("orders", ordinary)
	l.settled(1)
	body := []byte(strings.Repeat("x", 64_000))
	for part := range 10 {
		messages := make([]amqp.Publishing, large/10)
		for i := range messages {
			messages[i] = amqp.Publishing{DeliveryMode: amqp.Persistent, Headers: amqp.Table{"n": int64(part*large/10 + i)}, Body: body}
		}
		l.VHost.Send("", "orders.dlq", messages...)
	}
	l.client = l.DeadLetterClient(server, "looker", "deadletterqueue_admin_role")
	Eventually(func() (int, error) { return l.status("/orders/messages?limit=1") }).Should(Equal(http.StatusOK))
	return l
}

// status sends a request and returns its status code.
func (l *browsing) status(path string) (int, error) {
	response, err := l.client.TryResponse(path)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// open repeats a request until it succeeds, because an earlier browse may still return messages.
func (l *browsing) open(path string) *http.Response {
	GinkgoHelper()
	var response *http.Response
	Eventually(func(g Gomega) {
		var err error
		response, err = l.client.TryResponse(path)
		g.Expect(err).NotTo(HaveOccurred())
		if response.StatusCode != http.StatusOK {
			_ = response.Body.Close()
		}
		g.Expect(response.StatusCode).To(Equal(http.StatusOK))
	}).Should(Succeed())
	return response
}

// begin starts an export and reads the first message.
func (l *browsing) begin() *http.Response {
	GinkgoHelper()
	response := l.open("/orders/export")
	_, err := io.ReadFull(response.Body, make([]byte, 64_000))
	Expect(err).NotTo(HaveOccurred())
	return response
}

// readExport reads an export to its end and counts the lines before the last.
func readExport(response *http.Response) (messages int, end v1alpha1.ExportEnd) {
	GinkgoHelper()
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewReader(response.Body)
	for {
		line, err := lines.ReadBytes('\n')
		Expect(err).NotTo(HaveOccurred(), "the last line is missing")
		if _, err = lines.Peek(1); err != nil {
			Expect(err).To(MatchError(io.EOF))
			Expect(json.Unmarshal(line, &end)).To(Succeed())
			return messages, end
		}
		messages++
	}
}

// unread opens a response and waits, without reading on, until the messages have returned. If a busy broker returns them so late that
// the manager may have cut the response, unread opens another one.
func (l *browsing) unread(open func() *http.Response) *http.Response {
	GinkgoHelper()
	for range 10 {
		response := open()
		took := l.returned(soon)
		AddReportEntry("browse", ReportEntryVisibilityAlways, fmt.Sprintf("messages were ready again %v after the answer had begun", took))
		if took < 5*time.Second {
			return response
		}
		Expect(response.Body.Close()).To(Succeed())
	}
	Fail("the messages returned late each time")
	return nil
}

// returned waits until all messages are ready again and returns how long that took.
func (l *browsing) returned(within time.Duration) time.Duration {
	GinkgoHelper()
	began := time.Now()
	Eventually(func() int { return l.VHost.Ready("orders.dlq") }).WithTimeout(deadline.For(within)).WithPolling(10 * time.Millisecond).
		Should(Equal(large))
	return time.Since(began)
}

var _ = Describe("Browsing dead letters", Label("looks"), func() {
	It("uses little memory of the manager, also for large messages", Extended, func() {
		l := newBrowsing()
		memory := watchMemory(l.manager)
		for range 3 {
			list := v1alpha1.DeadLetterList{}
			l.client.Get("/orders/messages?limit=1000&bodyLimit=1000000", &list)
			Expect(len(list.Items)).To(BeNumerically("~", 8<<20/64_000, 2), "a page has up to 8 MiB")
			Expect(list.NextPosition).NotTo(BeNil())
			// A client on a busy machine may be too slow once.
			Eventually(func() v1alpha1.ExportEnd {
				_, end := readExport(l.open("/orders/export"))
				if end.Error == "" { // otherwise the export reports missing messages
					Expect(end).To(Equal(v1alpha1.ExportEnd{Kind: v1alpha1.KindExportEnd, Count: large, Ready: large}))
				}
				return end
			}).Should(HaveField("Error", BeEmpty()))
		}
		before, peak := memory()
		AddReportEntry("browse", ReportEntryVisibilityAlways, fmt.Sprintf(
			"%d messages of 64 kB: the manager took %d MiB, and up to %d MiB more", large, before>>20, (peak-before)>>20))
		Expect(peak - before).To(BeNumerically("<=", 100<<20))
	})

	It("returns messages when the client disconnects", Extended, func() {
		l := newBrowsing()
		response := l.begin()
		Expect(response.Body.Close()).To(Succeed())
		AddReportEntry("browse", ReportEntryVisibilityAlways,
			fmt.Sprintf("messages were ready again %v after the client had disconnected", l.returned(soon)))
	})

	It("returns messages while the client does not read, and continues when it reads", Extended, func() {
		l := newBrowsing()
		// A busy broker may return messages so late that an export reports them as held once.
		Eventually(func() v1alpha1.ExportEnd {
			messages, end := readExport(l.unread(l.begin))
			Expect(messages).To(BeEquivalentTo(end.Count)) // begin has read most of the first line, but not its end
			return end
		}).Should(Equal(v1alpha1.ExportEnd{Kind: v1alpha1.KindExportEnd, Count: large, Ready: large}))
	})

	DescribeTable("returns messages before the client reads", Extended, func(path string) {
		l := newBrowsing()
		response := l.unread(func() *http.Response { return l.open(path) })
		_, err := io.Copy(io.Discard, response.Body)
		Expect(err).NotTo(HaveOccurred())
		Expect(response.Body.Close()).To(Succeed())
	},
		Entry("a page of large messages", "/orders/messages?limit=1000&bodyLimit=1000000"),
		Entry("a small export", "/orders/export?expression=headers.n+%3C+100"),
	)

	It("loses no message when the manager is killed", func() {
		l := newBrowsing()
		response := l.begin()
		defer func() { _ = response.Body.Close() }()
		l.manager.Kill()
		l.returned(30 * time.Second)
		l.restart()
		list := v1alpha1.DeadLetterList{}
		l.client.Get("/orders/messages", &list)
		Expect(list.Ready).To(BeEquivalentTo(large))
	})
})
