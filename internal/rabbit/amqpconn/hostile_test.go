package amqpconn

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/time/rate"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/test/amqpmethod"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/hostile"
)

// dialHostile connects to a server that misbehaves in the given way.
func dialHostile(t *testing.T, way string, largestBody int64) (*Conn, *hostile.AMQP) {
	t.Helper()
	misbehave, known := hostile.AMQPWays()[way]
	if !known {
		t.Fatalf("there is no way %q", way)
	}
	server := hostile.NewAMQP(t, misbehave)
	conn, err := Dial(t.Context(), optionsFor(t, server, largestBody))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.CloseSocket)
	return conn, server
}

func optionsFor(t *testing.T, server *hostile.AMQP, largestBody int64) DialOptions {
	t.Helper()
	uri, err := url.Parse(server.URI)
	if err != nil {
		t.Fatal(err)
	}
	return DialOptions{URI: uri, Username: "guest", Password: "guest", VHost: "/", LargestBody: largestBody, Timeout: deadline.For(5 * time.Second)}
}

// use is an operation of a client on a channel. Its errors do not matter here.
type use func(channel *amqp.Channel)

func declareQueue(channel *amqp.Channel) {
	_, _ = channel.QueueDeclare("q", false, false, true, false, nil)
}
func confirm(channel *amqp.Channel) { _ = channel.Confirm(false) }
func get(channel *amqp.Channel)     { _, _, _ = channel.Get("q", false) }

func consume(channel *amqp.Channel) {
	_ = channel.Qos(100, 0, false)
	_, _ = channel.Consume("q", "ctag-1", false, false, false, false, nil)
}

// A frame that the client has not requested, or that is too large, ends the connection. The reason names the limit.
func TestHostileBrokerIsRefused(t *testing.T) {
	for _, test := range []struct {
		way     string
		use     use
		largest int64 // body
		says    string
	}{
		{"announces a body of 2^62 bytes", declareQueue, 0, "delivery 1 was not requested: 0 deliveries are unacknowledged, and at most 0 may be"},
		{"announces a body of 2^62 bytes to a consumer", consume, 0, "a message of 4611686018427387904 bytes is too large: the maximum is 536870912"},
		{"announces a body of 2^62 bytes to a consumer", consume, LargestBody, "a message of 4611686018427387904 bytes is too large: the maximum is 536870912"},
		{"sends a body of 2^62 bytes in answer to a get", get, 0, "a message of 4611686018427387904 bytes is too large: the maximum is 536870912"},
		{"sends bodies without a message", declareQueue, LargestBody, "the body of a message was not requested"},
		{"sends deliveries without a consumer", declareQueue, LargestBody, "delivery 1 was not requested"},
		{"sends deliveries on a channel that is not open", declareQueue, LargestBody, "method 60.60 on channel 9 was not requested"},
		{"sends more deliveries than the prefetch", consume, LargestBody, "delivery 201 was not requested: 200 deliveries are unacknowledged, and at most 200 may be"},
		{"sends deliveries with large headers", consume, 0, "the unacknowledged messages are too large: 2 messages take more than 8388608 bytes"},
		{"sends deliveries with many small tables", consume, 0, "the unacknowledged messages are too large: 2 messages take more than 8388608 bytes"},
		{"sends frames that are larger than agreed", declareQueue, 0, "a frame of 67108864 bytes is too large: the negotiated maximum is 131072"},
		{"answers a request that was not sent", declareQueue, 0, "method 50.11 was not requested"},
		{"confirms unpublished messages", confirm, 0, "the confirm of message 18446744073709551614 was not requested: 0 were published"},
		{"returns unpublished messages", confirm, 0, "a returned message was not requested"},
	} {
		t.Run(fmt.Sprintf("%s, with bodies up to %d", test.way, test.largest), func(t *testing.T) {
			conn, _ := dialHostile(t, test.way, test.largest)
			ended := conn.Connection.NotifyClose(make(chan *amqp.Error, 1))
			before := heap()
			channel, err := conn.Connection.Channel()
			if err != nil {
				t.Fatal(err)
			}
			test.use(channel)
			select {
			case reason := <-ended:
				if reason == nil || !strings.Contains(reason.Reason, test.says) {
					t.Errorf("the connection was ended with %v, not %q", reason, test.says)
				}
			case <-time.After(deadline.For(5 * time.Second)):
				t.Fatal("the connection is still open")
			}
			if taken := heap() - before; taken > 64<<20 {
				t.Errorf("%d MiB more are in use", taken>>20)
			}
		})
	}
}

// The status has both texts, and the API server refuses longer ones.
func TestTheAnnouncedNamesFitIntoTheStatus(t *testing.T) {
	t.Parallel()
	server := hostile.NewAMQP(t, func(*hostile.Session, hostile.Received) bool { return false })
	server.Version, server.ClusterName = "4.3.6-"+strings.Repeat("x", 200), strings.Repeat("y", 3000) // the first frame has 4 KiB
	conn, err := Dial(t.Context(), optionsFor(t, server, 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.CloseSocket)
	if len(conn.Version) > management.LongestVersion || len(conn.Name) > management.LongestClusterName {
		t.Errorf("the version has %d bytes, and the name of the cluster %d", len(conn.Version), len(conn.Name))
	}
}

// A connection that reads messages retains no more of them than it may, whatever their headers are. It drops the others.
func TestHeadersOfManyMessagesTakeLittleMemory(t *testing.T) { //nolint:paralleltest // measures the memory of the process
	for _, way := range []string{"sends deliveries with large headers", "sends deliveries with many small tables"} {
		t.Run(way, func(t *testing.T) {
			const prefetch = 100
			conn, _ := dialHostile(t, way, LargestBody)
			before := heap()
			channel, err := conn.Connection.Channel()
			if err == nil {
				err = channel.Qos(prefetch, 0, false)
			}
			if err != nil {
				t.Fatal(err)
			}
			messages, err := channel.Consume("q", "ctag-1", false, false, false, false, nil)
			if err != nil {
				t.Fatal(err)
			}
			var unsettled []amqp.Delivery
			for message := range messages { // until the broker exceeds the prefetch
				unsettled = append(unsettled, message)
			}
			taken := heap() - before
			t.Logf("%d messages take %d MiB", len(unsettled), taken>>20)
			if len(unsettled) < prefetch || len(unsettled[0].Headers) == 0 {
				t.Errorf("%d messages have arrived, the first with %d headers", len(unsettled), len(unsettled[0].Headers))
			}
			if taken > ConnectionBodies+4<<20 {
				t.Error("this is more than a connection may take")
			}
			runtime.KeepAlive(unsettled)
		})
	}
}

// heap returns the bytes in use, without garbage: how much garbage there is depends on how busy the machine is.
func heap() int64 {
	stats := runtime.MemStats{}
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// Close returns in time whatever the broker does. The library finishes its own shutdown after that. It panicked there if a channel was
// registered with its NotifyBlocked.
func TestCloseIsBounded(t *testing.T) {
	t.Parallel()
	for _, way := range []string{
		"floods connection.blocked",
		"floods connection.blocked when the client closes",
		"answers close between floods of connection.blocked",
		"never answers close, and sends heartbeats",
		"answers a request that was not sent",
		"floods heartbeats",
		"switches the flow on and off",
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			conn, _ := dialHostile(t, way, 0)
			ended := conn.Connection.NotifyClose(make(chan *amqp.Error, 1))
			if channel, err := conn.Connection.Channel(); err == nil {
				declareQueue(channel)
			}
			began := time.Now()
			conn.Close(100 * time.Millisecond)
			if took := time.Since(began); took > deadline.For(time.Second) {
				t.Errorf("closing took %v", took)
			}
			for open := true; open; {
				select {
				case _, open = <-ended:
				case <-time.After(deadline.For(10 * time.Second)):
					t.Fatal("the library has not ended the connection")
				}
			}
		})
	}
}

func TestHandshakeIsBounded(t *testing.T) {
	t.Parallel()
	server := hostile.NewAMQP(t, hostile.AMQPWays()["never answers tune, and sends heartbeats"])
	options := optionsFor(t, server, 0)
	options.Timeout = time.Second
	if _, err := Dial(t.Context(), options); !errors.Is(err, brokererr.ErrTimeout) {
		t.Errorf("%v is no time-out", err)
	}
}

// A protocol violation during the handshake is not reported as a wrong password.
func TestRefusalInTheHandshake(t *testing.T) {
	t.Parallel()
	server := hostile.NewAMQP(t, func(s *hostile.Session, received hostile.Received) bool {
		return received.Method == amqpmethod.ConnectionStartOK && s.Send(0, amqpmethod.QueueDeclareOK) && s.Send(0, amqpmethod.QueueDeclareOK)
	})
	_, err := Dial(t.Context(), optionsFor(t, server, 0))
	if want := "broker unreachable: the AMQP connection was closed: method 50.11 was not requested"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// The bytes of a server of another protocol are passed to the library, which refuses them immediately.
func TestServerOfAnotherProtocol(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"HTTP/1.1 400 Bad Request\r\n\r\n", "AMQP\x00\x01\x00\x00"} {
		listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // listening on the loopback does not wait
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		go func() {
			if line, err := listener.Accept(); err == nil {
				_, _ = io.ReadFull(line, make([]byte, 8)) // the protocol header: after an earlier answer, writing it may fail first
				_, _ = line.Write([]byte(text))
			}
		}()
		uri := &url.URL{Scheme: "amqp", Host: listener.Addr().String()}
		_, err = Dial(t.Context(), DialOptions{URI: uri, VHost: "/", Timeout: deadline.For(5 * time.Second)})
		const says = `broker unreachable: Exception (501) Reason: "frame size exceeds negotiated frame_max"`
		if err == nil || err.Error() != says {
			t.Errorf("%q: got %v, want %s", text, err, says)
		}
	}
}

func TestBlocked(t *testing.T) {
	t.Parallel()
	blocks := true
	server := hostile.NewAMQP(t, func(s *hostile.Session, received hostile.Received) bool {
		if received.Method == amqpmethod.ChannelOpen {
			id := uint16(61)
			arguments := []any{}
			if blocks {
				id, arguments = 60, []any{"low on memory"}
			}
			blocks = false
			s.Send(0, amqpmethod.Method{Class: 10, ID: id}, arguments...)
		}
		return false
	})
	conn, err := Dial(t.Context(), optionsFor(t, server, 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.CloseSocket)
	for _, want := range []amqp.Blocking{{Active: true, Reason: "low on memory"}, {}} {
		if _, err := conn.Connection.Channel(); err != nil {
			t.Fatal(err)
		}
		NewWithT(t).Eventually(conn.Blocked()).WithTimeout(deadline.For(5 * time.Second)).Should(Receive(Equal(want)))
	}
}

// The pace limits a broker that sends frames of any kind without end.
func TestPace(t *testing.T) {
	t.Parallel()
	const limit, burst = 100_000, 200_000
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _ = theirs.Close() })
	heartbeats := strings.Repeat("\x08\x00\x00\x00\x00\x00\x00\xce", 1000)
	go func() {
		for {
			if _, err := theirs.Write([]byte(heartbeats)); err != nil {
				return
			}
		}
	}()
	s := newSocket(ours, ours, newProtocol(0, nil), rate.NewLimiter(limit, burst))
	began, frames := time.Now(), 0
	context.AfterFunc(t.Context(), func() { _ = s.Close() })
	time.AfterFunc(time.Second, func() { _ = s.Close() })
	from := bufio.NewReader(s)
	for buffer := make([]byte, 8); ; frames++ {
		if _, err := from.Read(buffer); err != nil {
			break
		}
	}
	if allowed := int(burst+limit*time.Since(began).Seconds())/frameCost + 1; frames > allowed || frames < burst/frameCost {
		t.Errorf("%d frames were read in %v, at most %d are allowed", frames, time.Since(began), allowed)
	}
}
