package consumer

import (
	"context"
	"testing"
	"time"

	"github.com/warren-mq/warren/consumer/internal/transport"
)

// slowlyClosed is a connection whose broker answers the end only when asked to.
type slowlyClosed struct {
	transport.Connection

	closing, closed chan struct{}
}

func (slowlyClosed) IsClosed() bool { return false }

func (c slowlyClosed) Close(time.Time) error {
	close(c.closing)
	<-c.closed
	return nil
}

// The last consumer closes the shared connection. A consumer that begins meanwhile must not get it.
func TestAConsumerGetsNoConnectionThatIsBeingClosed(t *testing.T) {
	t.Parallel()
	connection := slowlyClosed{closing: make(chan struct{}), closed: make(chan struct{})}
	conn := NewConn(nil)
	conn.consuming.connect = func(context.Context) (transport.Connection, error) { return connection, nil }
	release := conn.use()
	if _, err := conn.consuming.get(t.Context()); err != nil {
		t.Fatal(err)
	}
	released := make(chan struct{})
	go func() {
		release()
		close(released)
	}()
	<-connection.closing
	if conn.mu.TryLock() {
		t.Error("a consumer can begin while the connection is being closed")
		conn.mu.Unlock()
	}
	close(connection.closed)
	<-released
}
