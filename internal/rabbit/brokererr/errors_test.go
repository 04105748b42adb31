package brokererr

import (
	"errors"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// The reply of RabbitMQ 4.3.6 after its supervisor of dead-letter workers has ended, and another reply that closes a connection.
func TestQueueNotStarted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason string
		want   error
		text   string
	}{
		"no majority of its members started": {
			reason: "INTERNAL_ERROR - Cannot declare quorum queue 'q' in vhost '/' on node 'rabbit@a' with leader on node 'rabbit@a': cluster_not_formed",
			want:   ErrQueueNotStarted,
			text:   "quorum queue not started: Cannot declare quorum queue 'q' in vhost '/' on node 'rabbit@a' with leader on node 'rabbit@a': cluster_not_formed",
		},
		"any other error": {
			reason: "INTERNAL_ERROR", want: ErrUnreachable, text: "broker unreachable: the AMQP connection was closed: INTERNAL_ERROR",
		},
	} {
		err := Errors{VHost: "/"}.OfOperation(&amqp.Error{Code: amqp.InternalError, Reason: test.reason, Server: true})
		if !errors.Is(err, test.want) || err.Error() != test.text {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A password of less than four bytes, and one that equals the name of the user, are not replaced: the gaps would reveal them.
func TestPasswordsInMessages(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ user, password, message, want string }{
		"three bytes":          {"bob", "abl", "a cable", "a cable"},
		"four bytes":           {"bob", "abcd", "xabcdx", "x[redacted]x"},
		"the name of the user": {"guest", "guest", `user "guest"`, `user "guest"`},
	} {
		err := Errors{Username: test.user, Password: test.password}.Fail(ErrAccessRefused, "%s", test.message)
		topologytest.Equal(t, name, ErrAccessRefused.Error()+": "+test.want, err.Error())
	}
}
