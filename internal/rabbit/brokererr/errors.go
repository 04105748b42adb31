// Package brokererr describes why an operation at a broker failed, without secrets.
package brokererr

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/warren-mq/warren/internal/vhost"
)

// The reasons why something failed. What Health, Refresh and Apply return wraps one of them, or several: a broker can
// refuse a user over AMQP while the management API does not answer. Ask for them in this order, the most telling first.
var (
	// ErrAuthentication: the broker does not know this user and password.
	ErrAuthentication = errors.New("authentication failed")
	// ErrAccessRefused: the user is known and lacks a permission or a tag; the message says which.
	ErrAccessRefused = errors.New("access refused")
	// ErrVHostNotFound: there is no such vhost, or the user must not know of it.
	ErrVHostNotFound = errors.New("vhost not found")
	// ErrPreconditionFailed: the object exists and is not as declared.
	ErrPreconditionFailed = errors.New("precondition failed")
	// ErrInvalidArgument: the broker knows no such argument for objects of this kind, or does not take its value. It says so
	// of an object that does not exist; of one that exists, it says ErrPreconditionFailed. Or it refuses the key of a binding.
	ErrInvalidArgument = errors.New("invalid argument")
	// ErrTooLarge: AMQP cannot carry the names or arguments of the object. Nothing was sent.
	ErrTooLarge = errors.New("too large for AMQP")
	// ErrNotFound: an object that was named does not exist.
	ErrNotFound = errors.New("not found")
	// ErrQueueNotStarted: the broker could not start the members of a new quorum queue, and closed the AMQP connection. Each queue
	// that dead-letters at least once fails so when the node's supervisor of dead-letter workers has ended (rabbitmq-server#16652).
	ErrQueueNotStarted = errors.New("quorum queue not started")
	// ErrResourceLocked: the object is exclusive to somebody else's connection.
	ErrResourceLocked = errors.New("resource locked")
	// ErrInUse: an exchange was not deleted, for something is bound from it.
	ErrInUse = errors.New("in use")
	// ErrNotEmpty: a queue was not deleted, for it holds messages or has consumers.
	ErrNotEmpty = errors.New("not empty")
	// ErrConsumed comes with ErrNotEmpty: the queue has consumers, or somebody holds messages of it.
	ErrConsumed = errors.New("consumed")
	// ErrPending comes with ErrNotEmpty or ErrUnproven: what is in the way goes away by itself, as dead letters, delayed messages
	// and the fences of a crash do, within minutes.
	ErrPending = errors.New("pending")
	// ErrUnproven: a queue was not deleted, for it could not be shown to be empty; the message says why.
	ErrUnproven = errors.New("not proved empty")
	// ErrOtherCluster: the broker that would be changed belongs to another cluster than the one that was meant. Nothing
	// was done.
	ErrOtherCluster = errors.New("another cluster")
	// ErrShared: another operator works on the vhost, so nothing is removed.
	ErrShared = errors.New("shared vhost")
	// ErrClusterMismatch: AMQP and the management API lead to two brokers; the message names both.
	ErrClusterMismatch = errors.New("cluster mismatch")
	// ErrUnreachable: no answer, or none that RabbitMQ would give.
	ErrUnreachable = errors.New("broker unreachable")
	// ErrTimeout: the broker did not answer in time. It is also an ErrUnreachable.
	ErrTimeout = fmt.Errorf("%w: no answer in time", ErrUnreachable)
	// ErrResponseTooLarge: an answer of the management API exceeds its limit. It is also an ErrUnreachable.
	ErrResponseTooLarge = errors.New("response too large")
	// ErrNotLeader: this process does not hold the lease of the leader election any more, so nothing is deleted.
	ErrNotLeader = errors.New("not the leader any more")
	// ErrClosed: the connection was closed by Close.
	ErrClosed = errors.New("connection closed")
)

// results are the reasons as metrics name them, the most telling first.
var results = []struct {
	reason error
	name   string
}{
	{ErrClosed, "closed"},
	{ErrNotLeader, "not_leader"},
	{ErrAuthentication, "authentication_failed"},
	{ErrAccessRefused, "access_refused"},
	{ErrVHostNotFound, "vhost_not_found"},
	{ErrPreconditionFailed, "precondition_failed"},
	{ErrInvalidArgument, "invalid_argument"},
	{ErrTooLarge, "too_large"},
	{ErrNotFound, "not_found"},
	{ErrQueueNotStarted, "queue_not_started"},
	{ErrResourceLocked, "resource_locked"},
	{ErrInUse, "in_use"},
	{ErrPending, "pending"},
	{ErrNotEmpty, "not_empty"},
	{ErrUnproven, "unproven"},
	{ErrOtherCluster, "other_cluster"},
	{ErrShared, "shared_vhost"},
	{ErrClusterMismatch, "cluster_mismatch"},
	{ErrResponseTooLarge, "response_too_large"},
	{context.Canceled, "canceled"},
	{ErrTimeout, "timeout"},
	{context.DeadlineExceeded, "timeout"},
	{ErrUnreachable, "unreachable"},
}

// Result says in one word, for metrics, what came of an operation: success, or why the operation failed.
func Result(err error) string {
	if err == nil {
		return "success"
	}
	for _, known := range results {
		if errors.Is(err, known.reason) {
			return known.name
		}
	}
	return "error"
}

// What can be done to an object.
const (
	OpDeclare = "declare"
	OpBind    = "bind"
	OpUnbind  = "unbind"
	OpDelete  = "delete"
)

// ObjectError is the failure of one operation on one object of the broker.
type ObjectError struct {
	// Op is declare, bind, unbind or delete.
	Op string
	// ID is the object, without the arguments of a binding.
	ID    vhost.ID
	VHost string
	Err   error
}

// Error says it in one line: declare queue "orders" in vhost "/": …
func (e *ObjectError) Error() string {
	if e.ID.Kind == vhost.KindBinding {
		direction := "to"
		if e.Op == OpUnbind {
			direction = "from"
		}
		return fmt.Sprintf("%s queue %q %s exchange %q with routing key %q in vhost %q: %v",
			e.Op, e.ID.Destination, direction, e.ID.Source, e.ID.RoutingKey, e.VHost, e.Err)
	}
	return fmt.Sprintf("%s %v in vhost %q: %v", e.Op, e.ID, e.VHost, e.Err)
}

// Unwrap returns the reason.
func (e *ObjectError) Unwrap() error { return e.Err }

// Failure is what this package makes of an error: a reason and a text without secrets. It does not wrap the error that
// it comes from, for those show URIs and addresses when printed field by field.
type Failure struct {
	reasons []error
	text    string
}

// New is an error with a text that shows no secret.
func New(text string, reasons ...error) error { return &Failure{reasons: reasons, text: text} }

func (f *Failure) Error() string   { return f.text }
func (f *Failure) Unwrap() []error { return f.reasons }

// Errors makes errors of what a broker says to one user. They never show the user's password.
type Errors struct{ Username, Password, VHost string }

// Fail makes an error of a sentinel and a detail.
func (e Errors) Fail(reason error, format string, args ...any) error {
	return e.Because([]error{reason}, fmt.Sprintf("%v: %s", reason, fmt.Sprintf(format, args...)))
}

// Unreachable classifies an error of the network or of TLS.
func (e Errors) Unreachable(err error) error {
	reasons := []error{ErrUnreachable}
	for _, sentinel := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, sentinel) {
			reasons = append(reasons, sentinel)
		}
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		reasons[0] = ErrTimeout
		return e.Because(reasons, ErrTimeout.Error()+where(err))
	}
	return e.Because(reasons, fmt.Sprintf("%v: %s", ErrUnreachable, plain(err)))
}

// Because takes the secrets out of a text before it cuts it: half a password is a secret, too.
func (e Errors) Because(reasons []error, text string) error {
	return &Failure{reasons: reasons, text: Truncate(e.redact(text), LongestText)}
}

// where names the address that a network operation was about, if there is one.
func where(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Addr != nil {
		return fmt.Sprintf(" (%s %v)", op.Op, op.Addr)
	}
	return ""
}

// plain renders a network error so that the same trouble gives the same text each time: without the client's own port,
// which is another one at each attempt, and without the URL.
func plain(err error) string {
	if request, ok := errors.AsType[*url.Error](err); ok {
		err = request.Err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		if op.Addr == nil {
			return fmt.Sprintf("%s: %v", op.Op, op.Err)
		}
		return fmt.Sprintf("%s %v: %v", op.Op, op.Addr, op.Err)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "the connection was closed"
	}
	return untimed(err.Error())
}

var (
	expired     = regexp.MustCompile(`current time \S+ is after `)
	notYetValid = regexp.MustCompile(`current time \S+ is before `)
)

// untimed takes out the current time, which Go says of a certificate that has expired or is not valid yet: each attempt would
// give another text, and change a status.
func untimed(text string) string {
	return notYetValid.ReplaceAllString(expired.ReplaceAllString(text, "valid until "), "valid from ")
}

// SameCluster makes an error of a broker that is not surely of the wanted cluster, which is given by its Key.
func (e Errors) SameCluster(here vhost.Cluster, wanted string) error {
	meant := vhost.ClusterOf(wanted)
	switch {
	case here.Is(meant):
		return nil
	case here.Name != meant.Name:
		return e.Fail(ErrOtherCluster, "the broker belongs to cluster %q, not to %q", here.Name, meant.Name)
	}
	return e.Fail(ErrOtherCluster, "the broker belongs to another cluster that is called %q", here.Name)
}

// channelErrors are the reply codes of AMQP that close a channel and nothing else.
var channelErrors = map[int]error{
	amqp.AccessRefused:      ErrAccessRefused,
	amqp.NotFound:           ErrNotFound,
	amqp.ResourceLocked:     ErrResourceLocked,
	amqp.PreconditionFailed: ErrPreconditionFailed,
}

// clusterNotFormed is how RabbitMQ says that no majority of the members of a new quorum queue started.
const clusterNotFormed = ": cluster_not_formed"

// Refused says whether an AMQP operation returned that the broker did nothing: it was refused, and cost its channel only.
func Refused(err error) bool {
	reply, ok := errors.AsType[*amqp.Error](err)
	return ok && channelErrors[reply.Code] != nil
}

// OfOperation classifies what an AMQP operation returned.
func (e Errors) OfOperation(err error) error {
	reply, ok := errors.AsType[*amqp.Error](err)
	if !ok {
		return e.Unreachable(err)
	}
	if reply.Code == amqp.PreconditionFailed && strings.HasSuffix(reply.Reason, " in use") {
		return e.Fail(ErrInUse, "%s", WithoutCode(reply.Reason))
	}
	refused := WithoutCode(reply.Reason)
	invalid := strings.HasPrefix(refused, "invalid arg ") || strings.HasPrefix(refused, "Topic binding key ") // the latter from 4.3.5 on
	if reply.Code == amqp.PreconditionFailed && invalid {
		return e.Fail(ErrInvalidArgument, "%s", refused)
	}
	if reply.Code == amqp.InternalError && strings.HasSuffix(reply.Reason, clusterNotFormed) {
		return e.Fail(ErrQueueNotStarted, "%s", WithoutCode(reply.Reason))
	}
	if reason, known := channelErrors[reply.Code]; known {
		return e.Fail(reason, "%s", WithoutCode(reply.Reason))
	}
	return e.Fail(ErrUnreachable, "the AMQP connection was closed: %s", WithoutCode(reply.Reason))
}

// OfDial classifies what opening an AMQP connection returned.
func (e Errors) OfDial(err error) error {
	reply, ok := errors.AsType[*amqp.Error](err)
	if !ok {
		return e.Unreachable(err)
	}
	reason := WithoutCode(reply.Reason)
	switch {
	case errors.Is(err, amqp.ErrVhost): // the library's guess when the broker goes away at this step
		return e.Fail(ErrUnreachable, "the connection was closed while opening vhost %q", e.VHost)
	case reply.Code == amqp.AccessRefused:
		return e.Fail(ErrAuthentication, "user %q: %s", e.Username, reason)
	case reply.Code == amqp.NotAllowed && strings.Contains(reason, "access to vhost"):
		return e.Fail(ErrAccessRefused, "%s", reason)
	case reply.Code == amqp.NotAllowed && strings.Contains(reason, "not found"):
		return e.Fail(ErrVHostNotFound, "%s", reason)
	}
	return e.Fail(ErrUnreachable, "%s", reason)
}

var (
	replyCode   = regexp.MustCompile(`^[A-Z_]+ - `)
	credentials = regexp.MustCompile(`(://)[^/?#\s"]*@`)
	ownPort     = regexp.MustCompile(`\S+->`)
)

// WithoutCode leaves out the name of the reply code, which the sentinel says already, and the client's own address, which
// is another one each time.
func WithoutCode(reason string) string {
	return ownPort.ReplaceAllString(replyCode.ReplaceAllString(reason, ""), "")
}

// WithoutCredentials is a URI without user and password.
func WithoutCredentials(text string) string { return credentials.ReplaceAllString(text, "$1") }

const redacted = "[redacted]"

// redact takes credentials out of a text: whatever stands before an @ in a URI, and the password in any spelling that
// a URI may give it. Passwords shorter than four bytes are left to the first rule, for replacing each "a" in a text
// would tell the password rather than hide it; so is one that equals the user's name.
func (e Errors) redact(text string) string {
	text = WithoutCredentials(text)
	if len(e.Password) < 4 || e.Password == e.Username {
		return text
	}
	spellings := []string{
		e.Password, url.QueryEscape(e.Password), url.PathEscape(e.Password), url.UserPassword("", e.Password).String()[1:],
	}
	slices.SortFunc(spellings, func(a, b string) int { return len(b) - len(a) })
	for _, spelling := range spellings {
		text = strings.ReplaceAll(text, spelling, redacted)
	}
	return text
}

// Truncate cuts a text to a length.
func Truncate(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len("…")], "") + "…"
}

// TooLarge makes an error of an answer that exceeds its limit. It says the same each time, for it stands in a status.
func (e Errors) TooLarge(limit int64, what string) error {
	return &Failure{
		reasons: []error{ErrResponseTooLarge, ErrUnreachable},
		text:    fmt.Sprintf("%v: %s than %s", ErrResponseTooLarge, what, resource.NewQuantity(limit, resource.BinarySI)),
	}
}

// LongestText is how long an error of this package may be, in bytes: most quote what a broker says.
const LongestText = 4096

// Ended says that a call came to nothing because its context ended, or because the connection was closed.
func (e Errors) Ended(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, ErrClosed) {
		return ErrClosed
	}
	if errors.Is(err, ctx.Err()) {
		return err
	}
	return errors.Join(e.Unreachable(ctx.Err()), err)
}

// AddTo adds to the text of an error, and keeps its reasons.
func (e Errors) AddTo(err error, text string) error {
	extended := &Failure{text: e.redact(err.Error() + "; " + text)}
	for _, reason := range []error{
		ErrAccessRefused, ErrOtherCluster, ErrNotEmpty, ErrUnproven, ErrUnreachable, ErrTimeout, ErrClosed,
		context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, reason) {
			extended.reasons = append(extended.reasons, reason)
		}
	}
	if own, ok := errors.AsType[*Failure](err); ok {
		extended.reasons = append(extended.reasons, own.reasons...)
	}
	return extended
}
