package brokererr

import (
	"errors"
	"fmt"
	"io"
	"strings"
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

// RabbitMQ truncates a reply text to 255 bytes. After a long name of a vhost, the text does not show its limit of connections.
func TestOfDial(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("v", 200)
	refused := func(vhost, user string) string {
		return fmt.Sprintf("NOT_ALLOWED - access to vhost '%s' refused for user '%s'", vhost, user)
	}
	for name, test := range map[string]struct {
		err  error
		want error
		text string
	}{
		"no answer": {io.EOF, ErrUnreachable, "broker unreachable: the connection was closed"},
		"closed while opening the vhost": {
			fmt.Errorf("dial: %w", amqp.ErrVhost), ErrUnreachable, `broker unreachable: the connection was closed while opening vhost "/"`,
		},
		"wrong password": {
			&amqp.Error{Code: amqp.AccessRefused, Reason: "ACCESS_REFUSED - Login was refused"}, ErrAuthentication,
			`authentication failed: user "bob": Login was refused`,
		},
		"the limit of the vhost": {
			&amqp.Error{Code: amqp.NotAllowed, Reason: refused("v", "bob") + ": connection limit (5) is reached"}, ErrUnreachable,
			"broker unreachable: access to vhost 'v' refused for user 'bob': connection limit (5) is reached",
		},
		"the limit of the user": {
			&amqp.Error{Code: amqp.NotAllowed, Reason: "NOT_ALLOWED - connection refused for user 'bob': user connection limit (5) is reached"},
			ErrUnreachable, "broker unreachable: connection refused for user 'bob': user connection limit (5) is reached",
		},
		"a text that is cut before its end": {
			&amqp.Error{Code: amqp.NotAllowed, Reason: (refused(long, "bob") + ": connection limit (5) is reached")[:252] + "..."}, ErrUnreachable,
			"broker unreachable: access to vhost '" + long + "' refused for user 'b...",
		},
		"no access to the vhost": {
			&amqp.Error{Code: amqp.NotAllowed, Reason: refused("v", "bob")}, ErrAccessRefused,
			"access refused: access to vhost 'v' refused for user 'bob'",
		},
		"no access, and names with dots": {
			&amqp.Error{Code: amqp.NotAllowed, Reason: refused("v...", "bob...")}, ErrAccessRefused,
			"access refused: access to vhost 'v...' refused for user 'bob...'",
		},
		"no such vhost": {
			&amqp.Error{Code: amqp.NotAllowed, Reason: "NOT_ALLOWED - vhost v not found"}, ErrVHostNotFound, "vhost not found: vhost v not found",
		},
		"another reason": {
			&amqp.Error{Code: amqp.NotAllowed, Reason: "NOT_ALLOWED - frame_max=1 < 4096 min size"}, ErrUnreachable,
			"broker unreachable: frame_max=1 < 4096 min size",
		},
		"another code": {
			&amqp.Error{Code: amqp.InternalError, Reason: "INTERNAL_ERROR - access to vhost 'v' refused for user 'bob': vhost 'v' is down"},
			ErrUnreachable, "broker unreachable: access to vhost 'v' refused for user 'bob': vhost 'v' is down",
		},
	} {
		err := Errors{Username: "bob", VHost: "/"}.OfDial(test.err)
		if !errors.Is(err, test.want) {
			t.Errorf("%s: not %v", name, test.want)
		}
		topologytest.Equal(t, name, test.text, err.Error())
	}
}

// Passwords of less than four bytes, or equal to the username, are not redacted, because the gaps would reveal them.
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
