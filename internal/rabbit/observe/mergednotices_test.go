package observe

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/rabbit/snapshot"
)

// Notices are merged while the receiver is busy.
func TestNoticesAreMerged(t *testing.T) {
	t.Parallel()
	n := NewNotices(nil)
	n.Add(snapshot.Notice{})
	select {
	case <-n.wake:
		t.Error("woken without a notice")
	default:
	}
	n.Add(snapshot.Notice{Queues: []string{"a", "b"}, Exchanges: []string{"x"}})
	n.Add(snapshot.Notice{Health: true, Queues: []string{"a", "c"}, Routes: []string{"y"}})
	g := NewWithT(t)
	g.Expect(n.take()).To(Equal(snapshot.Notice{Health: true, Queues: []string{"a", "b", "c"}, Exchanges: []string{"x"}, Routes: []string{"y"}}))
	g.Expect(n.take()).To(Equal(snapshot.Notice{}))
	n.Add(snapshot.Notice{Messages: true})
	n.Add(snapshot.Notice{Queues: []string{"a"}})
	g.Expect(n.take()).To(Equal(snapshot.Notice{Queues: []string{"a"}, Messages: true}))
}
