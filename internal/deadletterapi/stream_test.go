package deadletterapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// lazyClient receives nothing until the test makes it read.
type lazyClient struct {
	*httptest.ResponseRecorder

	reads chan struct{}
	begun chan struct{} // nil, or signalled when there is something to read
}

func (c lazyClient) Write(part []byte) (int, error) {
	select {
	case c.begun <- struct{}{}:
	default:
	}
	<-c.reads
	return c.ResponseRecorder.Write(part)
}

// exportedLines checks the lines of an export of messages with equal bodies: their number, and the last line.
func exportedLines(t *testing.T, export, body []byte) (count int, end v1alpha1.ExportEnd) {
	t.Helper()
	tail := []byte(`"body":"` + base64.StdEncoding.EncodeToString(body) + "\"}\n")
	for line := range bytes.Lines(export) {
		if bytes.HasPrefix(line, []byte(`{"kind":"ExportEnd"`)) {
			topologytest.Equal(t, "error", nil, json.Unmarshal(line, &end))
			continue
		}
		head := fmt.Appendf(nil, `{"kind":"ExportedDeadLetter","position":%d,`, count)
		if !bytes.HasPrefix(line, head) || !bytes.HasSuffix(line, tail) {
			t.Fatalf("line %d begins with %.80s", count, line)
		}
		count++
	}
	return count, end
}

// A browse does not wait for a client that reads nothing. The next browse exports the rest, once the client has read.
func TestStreamToALazyClient(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		size, messages int // of each body, and how many there are
		slow           bool
	}{
		"little": {size: 1 << 10, messages: 1000},
		"much":   {size: 64 << 10, messages: 150, slow: true},
		"a message that is larger than the buffer": {size: 7 << 20, messages: 2, slow: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // a busy machine takes longer than a browse may
				client := lazyClient{httptest.NewRecorder(), make(chan struct{}), nil}
				out := newStream(t.Context(), client)
				deadLetter := orders.Read(&amqp.Delivery{Body: make([]byte, test.size)})
				reads, slow := sync.OnceFunc(func() { close(client.reads) }), false
				for added := range test.messages {
					if !out.add(added, deadLetter) {
						topologytest.Equal(t, "unread", true, errors.Is(out.err, errUnread))
						slow = true
						reads()
						topologytest.Equal(t, "error of drain", nil, out.drain())
					}
				}
				reads()
				topologytest.Equal(t, "slow", test.slow, slow)
				out.end(browsed{ready: test.messages}, out.err)
				out.close()
				count, end := exportedLines(t, client.Body.Bytes(), deadLetter.Body)
				topologytest.Equal(t, "count", test.messages, count)
				topologytest.Equal(t, "end", v1alpha1.ExportEnd{
					Kind: v1alpha1.KindExportEnd, Count: int64(test.messages), Ready: int64(test.messages),
				}, end)
			})
		})
	}
}

// A browse of an export holds messages for ten seconds. Waiting for other users of the queue does not count.
func TestABrowseOfAnExportEndsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := newStream(t.Context(), httptest.NewRecorder())
		deadLetter := orders.Read(&amqp.Delivery{Body: []byte("1")})
		for range 2 {
			time.Sleep(exportTurnTime)
			topologytest.Equal(t, "more after the first message", true, out.add(0, deadLetter))
			time.Sleep(holdTime + time.Second)
			topologytest.Equal(t, "more after the time", false, out.add(1, deadLetter))
			topologytest.Equal(t, "error of drain", nil, out.drain())
		}
		out.close()
	})
}

// An export returns messages while its client reads, and continues behind the exported messages. It reports an
// error if these have changed, if a job may have removed others, or if its user may no longer export messages.
func TestExportToALazyClient(t *testing.T) {
	t.Parallel()
	deadLetters := make([]amqp.Delivery, 110) // more than the buffer holds
	for i := range deadLetters {
		deadLetters[i] = amqp.Delivery{MessageId: strconv.Itoa(i), Body: make([]byte, 64<<10)}
	}
	replaced := append(slices.Clone(deadLetters[:109]), amqp.Delivery{MessageId: "new", Body: make([]byte, 64<<10)})
	tooLarge := amqp.Delivery{Body: make([]byte, amqpconn.LargestBody+1)}
	for name, test := range map[string]struct {
		between []amqp.Delivery // while messages are back in the queue
		removes bool            // another user of the queue is a job that removes messages
		leaves  bool            // a consumer of the queue leaves
		denied  error           // from then on
		count   int             // of exported messages; zero if it depends on the machine
		partial v1alpha1.PartialReason
		error   string
	}{
		"nothing has changed":             {between: deadLetters, count: 110},
		"the last is too large":           {between: append(slices.Clone(deadLetters), tooLarge), count: 110, partial: v1alpha1.PartialTooLarge},
		"the first has left":              {between: deadLetters[1:], error: errChanged.Error()},
		"a later one has left":            {between: deadLetters[:109], error: errChanged.Error()},
		"a job has replaced a later one":  {between: replaced, removes: true, error: errChanged.Error()},
		"all have left":                   {between: nil, error: errChanged.Error()},
		"a consumer has left":             {between: replaced, leaves: true, count: 110, partial: v1alpha1.PartialHeldByConsumers},
		"a message was added at the end":  {between: append(slices.Clone(deadLetters), deadLetters[0]), count: 111},
		"a message was added at the head": {between: append([]amqp.Delivery{{MessageId: "new"}}, deadLetters...), error: errChanged.Error()},
		"the permission was revoked": {
			between: deadLetters, denied: forbidden("alice", attributes{verb: "get", namespace: "shop", name: "orders", subresource: "export"}),
			error: `deadletterqueues/export.deadletters.messaging.warren.dev "orders" is forbidden: user "alice" cannot get resource ` +
				`"deadletterqueues/export" in API group "deadletters.messaging.warren.dev" in namespace "shop"`,
		},
		"the API server does not answer": {
			between: deadLetters, denied: errors.New("create TokenReview: connection refused"),
			error: "Internal error occurred: see the log of the manager",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, `{}`, unchanged)
			w.broker.SetDeadLetters("orders.dlq", deadLetters...)
			w.broker.SetConsumers("orders.dlq", rabbit.Consumers{Others: test.leaves})
			lazy := lazyClient{httptest.NewRecorder(), make(chan struct{}), make(chan struct{}, 1)}
			var exporting sync.WaitGroup
			exporting.Go(func() {
				w.handler.routes().ServeHTTP(lazy, httptest.NewRequest(http.MethodGet, ofShop+"/orders/export", http.NoBody))
			})
			<-lazy.begun
			found, _, err := w.handler.finder.Find(t.Context(), client.ObjectKey{Namespace: "shop", Name: "orders"})
			topologytest.Equal(t, "error of Find", nil, err)
			entry, err := w.handler.takeTurn(t.Context(), found, true) // granted when the export has given messages back
			topologytest.Equal(t, "error of the turn", nil, err)
			w.broker.SetDeadLetters("orders.dlq", test.between...)
			w.broker.SetConsumers("orders.dlq", rabbit.Consumers{})
			if test.removes {
				entry.RecordRemoval()
			}
			w.denied = test.denied // the export reads it when it has the turn again
			entry.Leave()
			close(lazy.reads)
			exporting.Wait()
			count, end := exportedLines(t, lazy.Body.Bytes(), deadLetters[0].Body)
			topologytest.Equal(t, "error", test.error, end.Error)
			topologytest.Equal(t, "partial", test.partial, end.PartialReason)
			topologytest.Equal(t, "lines", end.Count, int64(count))
			if test.count > 0 {
				topologytest.Equal(t, "count", test.count, count)
			}
		})
	}
}

// Between its browses, an export has no slot. If others have all slots then, it waits for one.
func TestAnExportWaitsForASlot(t *testing.T) {
	t.Parallel()
	deadLetters := make([]amqp.Delivery, 150)
	for i := range deadLetters {
		deadLetters[i] = amqp.Delivery{MessageId: strconv.Itoa(i), Body: make([]byte, 64<<10)}
	}
	for name, test := range map[string]struct {
		taken    time.Duration
		complete bool
		error    string
	}{
		"for less than a minute": {exportTurnTime - time.Second, true, ""},
		"for a minute":           {exportTurnTime + 2*time.Second, false, "too many requests that browse queues are under way; try again"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, `{}`, unchanged)
				w.broker.SetDeadLetters("orders.dlq", deadLetters...)
				lazy := lazyClient{httptest.NewRecorder(), make(chan struct{}), nil}
				var exporting sync.WaitGroup
				exporting.Go(func() {
					w.handler.routes().ServeHTTP(lazy, httptest.NewRequest(http.MethodGet, ofShop+"/orders/export", http.NoBody))
				})
				time.Sleep(time.Second)
				for _, namespace := range []string{"a", "b", "c", "d"} {
					end, has := w.handler.browses.take(namespace)
					topologytest.Equal(t, "slots of the namespace", 0, has)
					time.AfterFunc(test.taken, end)
				}
				close(lazy.reads)
				exporting.Wait()
				time.Sleep(test.taken)
				synctest.Wait()
				count, end := exportedLines(t, lazy.Body.Bytes(), deadLetters[0].Body)
				topologytest.Equal(t, "error", test.error, end.Error)
				topologytest.Equal(t, "complete", test.complete, count == len(deadLetters))
				topologytest.Equal(t, "slots in use", 0, w.handler.browses.inAll)
			})
		})
	}
}

// A client that reads is waited for, however large a message is.
func TestStreamOfLargeMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // whose time does not depend on the machine
		recorder := httptest.NewRecorder()
		out := newStream(t.Context(), recorder)
		deadLetter := orders.Read(&amqp.Delivery{Body: make([]byte, 7<<20)})
		for position := range 2 {
			topologytest.Equal(t, "more", true, out.add(position, deadLetter))
		}
		out.end(browsed{}, nil)
		out.close()
		count, end := exportedLines(t, recorder.Body.Bytes(), deadLetter.Body)
		topologytest.Equal(t, "count", 2, count)
		topologytest.Equal(t, "end", v1alpha1.ExportEnd{Kind: v1alpha1.KindExportEnd, Count: 2}, end)
	})
}

// A client that has gone is not waited for, and gets nothing more.
func TestStreamWithoutAClient(t *testing.T) {
	t.Parallel()
	ctx, leave := context.WithCancel(t.Context())
	recorder := httptest.NewRecorder()
	out := newStream(ctx, recorder)
	leave()
	topologytest.Equal(t, "more", false, out.add(0, orders.Read(&amqp.Delivery{Body: make([]byte, 64<<10)})))
	topologytest.Equal(t, "gone", true, errors.Is(out.err, context.Canceled))
	out.end(browsed{}, out.err)
	out.close()
	topologytest.Equal(t, "written", 0, recorder.Body.Len())
}
