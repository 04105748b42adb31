// Package brokererr classifies why an operation at a broker failed. Its errors wrap one of the reasons below, and their texts contain no
// password.
package brokererr

import (
	"context"
	"encoding/base64"
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

	"github.com/warren-mq/warren/internal/text"
	"github.com/warren-mq/warren/internal/vhost"
)

// The reasons why an operation failed. The errors of Health, Refresh and Apply wrap one or more of them: a broker can refuse a user over
// AMQP while the management API does not answer. Check for them in this order, because the most specific ones come first.
var (
	// ErrAuthentication: the broker does not accept this user and password.
	ErrAuthentication = errors.New("authentication failed")
	// ErrAccessRefused: the user lacks a permission or a tag, which the message names.
	ErrAccessRefused = errors.New("access refused")
	// ErrVHostNotFound: the vhost does not exist, or the user may not know that it exists.
	ErrVHostNotFound = errors.New("vhost not found")
	// ErrPreconditionFailed: the object exists and differs from the declaration.
	ErrPreconditionFailed = errors.New("precondition failed")
	// ErrInvalidArgument: the broker does not support an argument for this kind of object, the value of an argument, or the routing key of
	// a binding. If the object exists already, the error is ErrPreconditionFailed instead.
	ErrInvalidArgument = errors.New("invalid argument")
	// ErrTooLarge: AMQP cannot carry the names or arguments of the object. Nothing was sent.
	ErrTooLarge = errors.New("too large for AMQP")
	// ErrNotFound: an object that the operation names does not exist.
	ErrNotFound = errors.New("not found")
	// ErrQueueNotStarted: the broker could not start the members of a new quorum queue, and closed the AMQP connection. After the
	// supervisor of dead-letter workers on a node has stopped, this happens to each queue that dead-letters at least once
	// (rabbitmq-server#16652).
	ErrQueueNotStarted = errors.New("quorum queue not started")
	// ErrResourceLocked: the object is exclusive to the connection of another client.
	ErrResourceLocked = errors.New("resource locked")
	// ErrInUse: an exchange was not deleted, because it is the source of a binding.
	ErrInUse = errors.New("in use")
	// ErrNotEmpty: a queue was not deleted, because it holds messages or has consumers.
	ErrNotEmpty = errors.New("not empty")
	// ErrConsumed comes with ErrNotEmpty: the queue has consumers, or a client holds unacknowledged messages of it.
	ErrConsumed = errors.New("consumed")
	// ErrPending comes with ErrNotEmpty or ErrUnproven: the cause disappears within minutes without action. Examples are dead letters in
	// transit, delayed messages and the fences of a crash.
	ErrPending = errors.New("pending")
	// ErrUnproven: a queue was not deleted, because it could not be proven empty. The message names the reason.
	ErrUnproven = errors.New("not proven empty")
	// ErrUnprovable comes with ErrUnproven: the type, the arguments or a policy of the queue rule out the proof, and will at the next
	// attempt.
	ErrUnprovable = errors.New("cannot be proven empty")
	// ErrOtherCluster: the broker does not belong to the cluster that the caller named. Nothing was changed.
	ErrOtherCluster = errors.New("another cluster")
	// ErrShared: another instance of Warren works on the vhost, so nothing is deleted.
	ErrShared = errors.New("shared vhost")
	// ErrClusterMismatch: AMQP and the management API lead to two brokers. The message names both.
	ErrClusterMismatch = errors.New("cluster mismatch")
	// ErrUnreachable: there was no answer, or an answer that RabbitMQ would not send.
	ErrUnreachable = errors.New("broker unreachable")
	// ErrTimeout: the broker did not answer in time. It is also an ErrUnreachable.
	ErrTimeout = fmt.Errorf("%w: no answer in time", ErrUnreachable)
	// ErrResponseTooLarge: an answer of the management API exceeds its limit. It is also an ErrUnreachable.
	ErrResponseTooLarge = errors.New("response too large")
	// ErrNotLeader: this process no longer holds the lease of the leader election, so nothing is deleted.
	ErrNotLeader = errors.New("no longer the leader")
	// ErrClosed: the connection was closed by Close.
	ErrClosed = errors.New("connection closed")
)

// results are the labels of the reasons in metrics, with the most specific reasons first.
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

// Result returns the outcome of an operation as a label for metrics: success, or the reason of the error.
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

// The operations on an object.
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

// Error returns one line, such as: declare queue "orders" in vhost "/": …
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

// Failure is an error of this package: its reasons, and a message without secrets. It does not wrap the original error, whose fields may
// contain URIs and addresses.
type Failure struct {
	reasons []error
	text    string
}

// New returns an error with reasons. The message must contain no secret.
func New(message string, reasons ...error) error { return &Failure{reasons: reasons, text: message} }

func (f *Failure) Error() string   { return f.text }
func (f *Failure) Unwrap() []error { return f.reasons }

// Errors creates errors from the answers of a broker to one user. The errors never contain the user's password.
type Errors struct{ Username, Password, VHost string }

// Fail returns an error with a reason. The message consists of the reason and the formatted detail.
func (e Errors) Fail(reason error, format string, args ...any) error {
	return e.Because([]error{reason}, fmt.Sprintf("%v: %s", reason, fmt.Sprintf(format, args...)))
}

// Unreachable classifies an error of the network or of TLS as ErrUnreachable or ErrTimeout. If the cause is the end of a context, the
// result also wraps the error of the context.
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

// Because returns an error with reasons and a message. It removes secrets from the message before it cuts the message to LongestText,
// because half a password is a secret, too.
func (e Errors) Because(reasons []error, message string) error {
	return &Failure{reasons: reasons, text: text.Truncate(e.redact(message), LongestText)}
}

// where returns the operation and the address of a network error; empty if it has no address.
func where(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Addr != nil {
		return fmt.Sprintf(" (%s %v)", op.Op, op.Addr)
	}
	return ""
}

// plain renders a network error without the URL and without the client's own port, which differs with each attempt. So the same failure
// always has the same text.
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

// untimed removes the current time from Go's error about a certificate that has expired or is not valid yet. With the time, each attempt
// would have another text, and would change a status.
func untimed(message string) string {
	return notYetValid.ReplaceAllString(expired.ReplaceAllString(message, "valid until "), "valid from ")
}

// SameCluster returns ErrOtherCluster unless the broker certainly belongs to the wanted cluster. wanted is the Key of a cluster.
func (e Errors) SameCluster(here vhost.Cluster, wanted string) error {
	meant := vhost.ClusterOf(wanted)
	switch {
	case here.Is(meant):
		return nil
	case here.Name != meant.Name:
		return e.Fail(ErrOtherCluster, "the broker belongs to cluster %q, not to %q", here.Name, meant.Name)
	}
	return e.Fail(ErrOtherCluster, "the broker belongs to another cluster that is also named %q", here.Name)
}

// channelErrors are the reply codes of AMQP that close only the channel.
var channelErrors = map[int]error{
	amqp.AccessRefused:      ErrAccessRefused,
	amqp.NotFound:           ErrNotFound,
	amqp.ResourceLocked:     ErrResourceLocked,
	amqp.PreconditionFailed: ErrPreconditionFailed,
}

// clusterNotFormed ends RabbitMQ's reply if no majority of the members of a new quorum queue started.
const clusterNotFormed = ": cluster_not_formed"

// Refused reports whether an AMQP error shows that the broker did nothing: it refused the operation, and closed only its channel.
func Refused(err error) bool {
	reply, ok := errors.AsType[*amqp.Error](err)
	return ok && channelErrors[reply.Code] != nil
}

// OfOperation classifies the error of an AMQP operation.
func (e Errors) OfOperation(err error) error {
	reply, ok := errors.AsType[*amqp.Error](err)
	if !ok {
		return e.Unreachable(err)
	}
	if reply.Code == amqp.PreconditionFailed && strings.HasSuffix(reply.Reason, " in use") {
		return e.Fail(ErrInUse, "%s", WithoutCode(reply.Reason))
	}
	refused := WithoutCode(reply.Reason)
	// From 4.3.5 on, RabbitMQ refuses some keys of topic bindings.
	invalid := strings.HasPrefix(refused, "invalid arg ") || strings.HasPrefix(refused, "Topic binding key ")
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

// OfDial classifies the error of opening an AMQP connection.
func (e Errors) OfDial(err error) error {
	reply, ok := errors.AsType[*amqp.Error](err)
	if !ok {
		return e.Unreachable(err)
	}
	reason := WithoutCode(reply.Reason)
	switch {
	case errors.Is(err, amqp.ErrVhost): // the AMQP library reports this if the broker closes the connection at this step
		return e.Fail(ErrUnreachable, "the connection was closed while opening vhost %q", e.VHost)
	case reply.Code == amqp.AccessRefused:
		return e.Fail(ErrAuthentication, "user %q: %s", e.Username, reason)
	case reply.Code == amqp.NotAllowed && strings.Contains(reason, "connection limit ("): // of the vhost; the text also refuses access
		return e.Fail(ErrUnreachable, "%s", reason)
	case reply.Code == amqp.NotAllowed && strings.HasSuffix(reason, "..."): // RabbitMQ cuts long texts, so the limit may be missing
		return e.Fail(ErrUnreachable, "%s", reason)
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

// WithoutCode removes the name of the reply code, which the reason already contains, and the client's own address, which differs each time.
func WithoutCode(reason string) string {
	return ownPort.ReplaceAllString(replyCode.ReplaceAllString(reason, ""), "")
}

// WithoutCredentials removes user and password from all URIs in a message.
func WithoutCredentials(message string) string { return credentials.ReplaceAllString(message, "$1") }

const redacted = "[redacted]"

// redact removes credentials from a message: everything before an @ in a URI, user and password as encoded in the header Authorization,
// which a server may quote, and the password in each spelling that a URI may have. The last rule skips passwords shorter than four bytes,
// because replacing each "a" in a message would reveal the password. It also skips a password that equals the user's name.
func (e Errors) redact(message string) string {
	message = WithoutCredentials(message)
	if e.Password != "" {
		message = strings.ReplaceAll(message, base64.StdEncoding.EncodeToString([]byte(e.Username+":"+e.Password)), redacted)
	}
	if len(e.Password) < 4 || e.Password == e.Username {
		return message
	}
	spellings := []string{
		e.Password, url.QueryEscape(e.Password), url.PathEscape(e.Password), url.UserPassword("", e.Password).String()[1:],
	}
	slices.SortFunc(spellings, func(a, b string) int { return len(b) - len(a) })
	for _, spelling := range spellings {
		message = strings.ReplaceAll(message, spelling, redacted)
	}
	return message
}

// TooLarge returns an error for an answer that exceeds its limit. The message appears in a status, so it is the same for each attempt.
func (e Errors) TooLarge(limit int64, what string) error {
	return &Failure{
		reasons: []error{ErrResponseTooLarge, ErrUnreachable},
		text:    fmt.Sprintf("%v: %s than %s", ErrResponseTooLarge, what, resource.NewQuantity(limit, resource.BinarySI)),
	}
}

// LongestText is the maximum length of a message in bytes. Most messages quote a broker, which is not trusted.
const LongestText = 4096

// Ended returns the error of a call whose context ended: ErrClosed if the connection was closed, and otherwise err together with the error
// of the context.
func (e Errors) Ended(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, ErrClosed) {
		return ErrClosed
	}
	if errors.Is(err, ctx.Err()) {
		return err
	}
	return errors.Join(e.Unreachable(ctx.Err()), err)
}

// AddTo appends to the message of an error, and retains its reasons.
func (e Errors) AddTo(err error, message string) error {
	extended := &Failure{text: e.redact(err.Error() + "; " + message)}
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

// IsAny reports whether err is any of the reasons.
func IsAny(err error, reasons ...error) bool {
	return slices.ContainsFunc(reasons, func(reason error) bool { return errors.Is(err, reason) })
}
