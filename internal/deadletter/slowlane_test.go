package deadletter

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/test/deadline"
)

// Many jobs whose expressions are slow on each message use one core together. Expressions that are quick do not wait for them.
func TestSlowExpressionsRunOneByOne(t *testing.T) { //nolint:paralleltest // it occupies the slow lane of the process
	large := orders.Read(&amqp.Delivery{Body: []byte(`{"l": [0` + strings.Repeat(", 0", 1<<14) + `]}`)})
	slow, err := compileExpression(`body.l.all(x, body.l == body.l)`)
	if err != nil {
		t.Fatal(err)
	}
	quick, err := compileExpression(`size > 0`)
	if err != nil {
		t.Fatal(err)
	}
	slow.isSlow.Store(true)
	slowLane.Lock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		slow.skips(large, at)
	}()
	quick.skips(large, at)
	select {
	case <-ended:
		t.Error("a slow expression did not wait")
	case <-time.After(100 * time.Millisecond):
	}
	slowLane.Unlock()
	<-ended
	isSlowAfterQuick := func() bool {
		slow.isSlow.Store(true)
		slow.skips(orders.Read(&amqp.Delivery{Body: []byte(`{"l": []}`)}), at)
		return slow.isSlow.Load()
	}
	NewWithT(t).Eventually(isSlowAfterQuick).WithTimeout(deadline.For(time.Second)).Should(BeFalse())
}
