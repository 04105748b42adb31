package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The kinds of responses.
const (
	KindDeadLetterQueue     = "DeadLetterQueue"
	KindDeadLetterQueueList = "DeadLetterQueueList"
	KindDeadLetterList      = "DeadLetterList"
	KindExportedDeadLetter  = "ExportedDeadLetter"
	KindExportEnd           = "ExportEnd"
)

// DeadLetterQueue is the dead-letter queue of the ConsumerQueue with the same name.
type DeadLetterQueue struct {
	metav1.TypeMeta `json:",inline"`
	// metadata has the namespace, name, UID, labels and creation time of the ConsumerQueue. It has no labels if they are larger than
	// 2 KiB.
	metav1.ObjectMeta `json:"metadata"`
	// queue is the name of the queue at the broker.
	Queue string `json:"queue"`
	// messages is the number of messages at the time of asOf. It is absent if Warren has not counted them.
	Messages *int64 `json:"messages,omitempty"`
	// asOf is when Warren counted the messages.
	AsOf *metav1.Time `json:"asOf,omitempty"`
	// underWay is how many messages the running Redrives and Purges of the ConsumerQueue have yet to examine, move or delete, from
	// their statuses. It is absent outside of lists, and in `kubectl warren dlq ls` for users without permission to list Redrives.
	UnderWay *int64 `json:"underWay,omitempty"`
	// consumers is the number of other consumers of the queue. It is absent in lists.
	Consumers *int64 `json:"consumers,omitempty"`
	// summary describes the messages. It is absent in lists.
	Summary *Summary `json:"summary,omitempty"`
}

// DeadLetterQueueList lists the dead-letter queues of one namespace or of all.
type DeadLetterQueueList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is empty: the list is always complete.
	metav1.ListMeta `json:"metadata"`
	// items are in no particular order.
	Items []DeadLetterQueue `json:"items"`
}

// Summary groups the messages of a queue, without their content.
type Summary struct {
	// examined is the number of messages from the head of the queue that the summary covers.
	Examined int64 `json:"examined"`
	Seen     `json:",inline"`
	// groupBy is the header whose values form the groups.
	GroupBy string `json:"groupBy,omitempty"`
	// groups are the largest groups, the largest first.
	Groups []Group `json:"groups"`
	// others is the number of messages outside of these groups.
	Others int64 `json:"others,omitempty"`
}

// Seen reports whether the response covers all messages of the queue.
type Seen struct {
	// partial is true if messages may be missing.
	Partial bool `json:"partial"`
	// partialReason is why messages may be missing.
	PartialReason PartialReason `json:"partialReason,omitempty"`
	// unseen is how many messages were ready at the beginning and were not delivered, because other consumers received them
	// meanwhile.
	Unseen int64 `json:"unseen,omitempty"`
	// held is how many messages a concurrent Redrive or Purge held.
	Held int64 `json:"held,omitempty"`
	// tooLarge is how many messages were left out because their body is larger than 16 MiB.
	TooLarge int64 `json:"tooLarge,omitempty"`
	// skipped counts the messages that are left out, by reason. OtherOrigin: in a shared queue, the message belongs to another
	// ConsumerQueue. NoOrigin: in a shared queue, the queue of origin is unknown. NotEvaluated: the expression failed on the
	// message. Undated: diedAfter or diedBefore is set, and the time of death is unknown.
	Skipped map[string]int64 `json:"skipped,omitempty"`
	// evaluationError is the error of the expression on the first message that the field skipped counts as NotEvaluated. It contains no
	// values of the message.
	EvaluationError string `json:"evaluationError,omitempty"`
}

// PartialReason is why messages may be missing.
type PartialReason string

// The values of PartialReason.
const (
	// PartialHeldByConsumers: other consumers of the queue hold messages.
	PartialHeldByConsumers PartialReason = "HeldByConsumers"
	// PartialJobRunning: a Redrive or Purge holds messages. It paused during the request.
	PartialJobRunning PartialReason = "JobRunning"
	// PartialDepth: the queue has more messages than one request reads.
	PartialDepth PartialReason = "DepthReached"
	// PartialTime: the request took too long.
	PartialTime PartialReason = "TimeReached"
	// PartialUnreadable: the broker can deliver neither a certain message over AMQP 0-9-1, nor the messages behind it.
	PartialUnreadable PartialReason = "UnreadableMessage"
	// PartialTooLarge: messages whose body is larger than 16 MiB were left out.
	PartialTooLarge PartialReason = "TooLargeMessage"
	// PartialDelayed: because of a policy or an argument, RabbitMQ hides messages for some time after a request or a job has
	// returned them.
	PartialDelayed PartialReason = "ReturnsDelayed"
)

// Group is the set of messages that died in one queue for one reason, with one value of the groupBy header.
type Group struct {
	// reason is why the messages died: Rejected, Expired, MaxLength, DeliveryLimit or Parked.
	// +required
	Reason string `json:"reason"`
	// queue is where the messages died; empty if unknown.
	Queue string `json:"queue,omitempty"`
	// value of the header, in base64 if it is not UTF-8; absent if the messages lack the header.
	Value *string `json:"value,omitempty"`
	// valueInexact is true if value is not the whole text of the header: it has only the first 1024 bytes, is in base64, or is empty
	// because the header is a list, a table or a time. Then no requirement of a header selects exactly this group. Messages in one
	// group have the same whole value, except lists, tables and times.
	ValueInexact bool `json:"valueInexact,omitempty"`
	// count is the number of messages in the group.
	Count int64 `json:"count"`
	// redriven is how many of these messages were moved back before, and failed again.
	Redriven int64 `json:"redriven,omitempty"`
	// oldest is the earliest known time of death.
	Oldest *metav1.Time `json:"oldest,omitempty"`
	// newest is the latest known time of death.
	Newest *metav1.Time `json:"newest,omitempty"`
	// sampleID is the ID of the first message in the group.
	SampleID string `json:"sampleID"`
}

// DeadLetterList lists messages of a dead-letter queue.
type DeadLetterList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is empty: use nextPosition instead of continue.
	metav1.ListMeta `json:"metadata"`
	// queue is the name of the queue at the broker.
	Queue string `json:"queue"`
	// ready is how many messages were ready.
	Ready int64 `json:"ready"`
	Seen  `json:",inline"`
	// nextPosition is the position of the next page; absent at the end.
	NextPosition *int64 `json:"nextPosition,omitempty"`
	// items are of type DeadLetter.
	Items []json.RawMessage `json:"items"`
}

// DeadLetter is a message in a dead-letter queue.
type DeadLetter struct {
	// position counts from the head of the queue, from zero. It changes when messages leave or return; the ID does not.
	Position int64 `json:"position"`
	// id identifies the message by its content. Identical messages share an ID.
	ID string `json:"id"`
	// reason is why the message died: Rejected, Expired, MaxLength, DeliveryLimit or Parked.
	Reason string `json:"reason"`
	// origin is the route of the message before it died.
	Origin Origin `json:"origin"`
	// redrives is how often the message was moved back before.
	Redrives int64 `json:"redrives,omitempty"`
	// properties of the message, by their names in AMQP.
	Properties map[string]any `json:"properties,omitempty"`
	// headers as plain values. Values that look like credentials are redacted.
	Headers map[string]any `json:"headers,omitempty"`
	// size is the length of the body in bytes.
	Size int64 `json:"size"`
	// body as text or base64, see bodyEncoding.
	Body string `json:"body"`
	// bodyEncoding is the encoding of body.
	BodyEncoding Encoding `json:"bodyEncoding"`
	// bodyTruncated is true if body is only the beginning.
	BodyTruncated bool `json:"bodyTruncated"`
	// warnings describe risks of this message.
	Warnings []Warning `json:"warnings,omitempty"`
}

// Origin is the route of a message before it came to the dead-letter queue. Unknown parts are absent.
type Origin struct {
	// queue is where the message died, or the main queue of the consumer that parked the message.
	Queue string `json:"queue,omitempty"`
	// exchange is the exchange that the message was first published to.
	Exchange *string `json:"exchange,omitempty"`
	// routingKey is the key with which the message was first published.
	RoutingKey *string `json:"routingKey,omitempty"`
	// diedAt is when the message first died in queue.
	DiedAt *metav1.Time `json:"diedAt,omitempty"`
}

// Encoding is an encoding of bytes as text.
type Encoding string

// The values of Encoding.
const (
	UTF8   Encoding = "utf8"
	Base64 Encoding = "base64"
)

// Warning is a risk of a message.
type Warning string

// The values of Warning.
const (
	// WarningExpiresInQueue: the message has an expiration, after which the broker deletes it.
	WarningExpiresInQueue Warning = "ExpiresInQueue"
	// WarningCameBack: the message was moved back before, and failed again.
	WarningCameBack Warning = "CameBack"
	// WarningNoOrigin: the message's queue of origin is unknown.
	WarningNoOrigin Warning = "NoOrigin"
	// WarningAMQP10: the message was published over AMQP 1.0. AMQP 0-9-1 cannot show or move all of it.
	WarningAMQP10 Warning = "AMQP10"
)

// ExportedDeadLetter is an unabridged message, one line of an export.
type ExportedDeadLetter struct {
	// kind is ExportedDeadLetter.
	Kind string `json:"kind"`
	// position counts from the head of the queue, from zero.
	Position int64 `json:"position"`
	// id identifies the message by its content.
	ID string `json:"id"`
	// exchange is the exchange of the last publish or dead-lettering.
	Exchange string `json:"exchange"`
	// routingKey is the key of the last publish or dead-lettering.
	RoutingKey string `json:"routingKey"`
	// properties of AMQP 0-9-1 that the message has, except headers.
	Properties map[string]any `json:"properties"`
	// headers with their types.
	Headers map[string]TypedValue `json:"headers"`
	// body as base64.
	Body []byte `json:"body"`
}

// TypedValue is a field of AMQP 0-9-1 with its type, as RabbitMQ names it: boolean, byte, unsignedbyte, short, unsignedshort,
// int, unsignedint, long, float, double, decimal, longstr, binary (base64), timestamp (RFC 3339), array, table, void.
type TypedValue struct {
	// type is the name of the type.
	Type string `json:"type"`
	// encoding is base64 if a longstr is not UTF-8, and empty otherwise.
	Encoding Encoding `json:"encoding,omitempty"`
	// value as JSON.
	Value any `json:"value"`
}

// ExportEnd is the last line of an export. An export is complete only if it has this line, partial is false and error is empty.
type ExportEnd struct {
	// kind is ExportEnd.
	Kind string `json:"kind"`
	// count is the number of exported messages.
	Count int64 `json:"count"`
	// ready is how many messages were ready when the export last checked, regardless of the selection.
	Ready int64 `json:"ready"`
	Seen  `json:",inline"`
	// error is why the export ended early; empty if it did not.
	Error string `json:"error,omitempty"`
}
