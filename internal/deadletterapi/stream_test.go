package deadletterapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// lazyClient takes nothing until it is told to read.
type lazyClient struct {
	*httptest.ResponseRecorder

	reads chan struct{}
	begun chan struct{} // nil, or told when there is something to read
}

func (c lazyClient) Write(part []byte) (int, error) {
	select {
	case c.begun <- struct{}{}:
	default:
	}
	<-c.reads
	return c.ResponseRecorder.Write(part)
}

// exportedLines checks the lines of an export of messages that all have the same body: how many there are, and the last line.
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

// A look does not wait for a client that takes nothing. What was looked at by then is exported whole, and the last line tells of the rest.
func TestStreamToALazyClient(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		size, messages int // of each body, and how many there are
		slow           bool
	}{
		"little": {size: 1 << 10, messages: 1000},
		"much":   {size: 64 << 10, messages: 1000, slow: true},
		"a message that is larger than what waits": {size: 13 << 20, messages: 2, slow: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := lazyClient{httptest.NewRecorder(), make(chan struct{}), nil}
			out := newStream(t.Context(), client)
			letter := orders.Read(&amqp.Delivery{Body: make([]byte, test.size)})
			added := 0
			for more := true; more && added < test.messages; added++ {
				more = out.add(added, letter)
			}
			topologytest.Equal(t, "slow", test.slow, errors.Is(out.err, errSlowClient))
			topologytest.Equal(t, "cut short", test.slow, added < test.messages)
			close(client.reads)
			want := v1alpha1.ExportEnd{Kind: v1alpha1.KindExportEnd, Count: int64(added)}
			if test.slow {
				want.Error = errSlowClient.Error()
			}
			out.end(v1alpha1.Seen{}, out.err)
			out.close()
			count, end := exportedLines(t, client.Body.Bytes(), letter.Body)
			topologytest.Equal(t, "count", added, count)
			topologytest.Equal(t, "end", want, end)
		})
	}
}

// A client that reads is waited for, however large a message is.
func TestStreamOfLargeMessages(t *testing.T) {
	t.Parallel()
	client := httptest.NewRecorder()
	out := newStream(t.Context(), client)
	letter := orders.Read(&amqp.Delivery{Body: make([]byte, 13<<20)})
	for position := range 2 {
		topologytest.Equal(t, "more", true, out.add(position, letter))
	}
	out.end(v1alpha1.Seen{}, nil)
	out.close()
	count, end := exportedLines(t, client.Body.Bytes(), letter.Body)
	topologytest.Equal(t, "count", 2, count)
	topologytest.Equal(t, "end", v1alpha1.ExportEnd{Kind: v1alpha1.KindExportEnd, Count: 2}, end)
}

// A client that has gone is not waited for, and gets nothing more.
func TestStreamToNobody(t *testing.T) {
	t.Parallel()
	ctx, leave := context.WithCancel(t.Context())
	client := httptest.NewRecorder()
	out := newStream(ctx, client)
	leave()
	topologytest.Equal(t, "more", false, out.add(0, orders.Read(&amqp.Delivery{Body: make([]byte, 64<<10)})))
	topologytest.Equal(t, "gone", true, errors.Is(out.err, context.Canceled))
	out.end(v1alpha1.Seen{}, out.err)
	out.close()
	topologytest.Equal(t, "written", 0, client.Body.Len())
}
