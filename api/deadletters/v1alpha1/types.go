package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The kinds of the answers.
const (
	KindDeadLetterQueue     = "DeadLetterQueue"
	KindDeadLetterQueueList = "DeadLetterQueueList"
	KindDeadLetterList      = "DeadLetterList"
	KindExportedDeadLetter  = "ExportedDeadLetter"
	KindExportEnd           = "ExportEnd"
)

// DeadLetterQueue is the dead-letter queue of the ConsumerQueue of the same name.
type DeadLetterQueue struct {
	metav1.TypeMeta `json:",inline"`
	// metadata are namespace, name, UID, labels and age of the ConsumerQueue.
	metav1.ObjectMeta `json:"metadata"`
	// queue is the name of the queue at the broker.
	Queue string `json:"queue"`
	// messages is how many messages there were at the time of asOf. Absent if nobody has counted.
	Messages *int64 `json:"messages,omitempty"`
	// asOf is when messages were counted.
	AsOf *metav1.Time `json:"asOf,omitempty"`
	// consumers is how many others consume the queue. Absent in lists.
	Consumers *int64 `json:"consumers,omitempty"`
	// summary tells of the messages. Absent in lists.
	Summary *Summary `json:"summary,omitempty"`
}

// DeadLetterQueueList are the dead-letter queues of a namespace, or of all.
type DeadLetterQueueList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is empty: the list is always complete.
	metav1.ListMeta `json:"metadata"`
	// items are sorted as the operator found them.
	Items []DeadLetterQueue `json:"items"`
}

// Summary tells what kinds of messages there are, without their content.
type Summary struct {
	// examined is how many messages from the head of the queue the summary is about.
	Examined int64 `json:"examined"`
	Seen     `json:",inline"`
	// groupBy is the header that the groups tell apart.
	GroupBy string `json:"groupBy,omitempty"`
	// groups are the largest ones, the largest first.
	Groups []Group `json:"groups"`
	// others is how many messages are in none of the groups.
	Others int64 `json:"others,omitempty"`
}

// Seen says of an answer whether there may be messages that it does not tell of.
type Seen struct {
	// partial says that there are messages that could not be seen.
	Partial bool `json:"partial"`
	// partialReason says why.
	PartialReason PartialReason `json:"partialReason,omitempty"`
	// unseen is how many messages were ready at the beginning and did not come, because others took them meanwhile.
	Unseen int64 `json:"unseen,omitempty"`
	// held is how many messages the Redrive or Purge held that ran meanwhile.
	Held int64 `json:"held,omitempty"`
	// skipped counts the messages that are left out, by reason. OtherOrigin and NoOrigin: messages of a shared queue that belong to other
	// ConsumerQueues, or do not tell which queue they come from. NotEvaluated: where failed on the message. Undated: diedAfter or
	// diedBefore is set, and the message does not tell when it died.
	Skipped map[string]int64 `json:"skipped,omitempty"`
	// evaluationError says why where failed on the first of the messages that skipped counts as NotEvaluated. It has no values of the
	// message.
	EvaluationError string `json:"evaluationError,omitempty"`
}

// PartialReason says why there are messages that were not seen.
type PartialReason string

// The reasons.
const (
	// PartialHeldByConsumers: others consume the queue, and hold messages.
	PartialHeldByConsumers PartialReason = "HeldByConsumers"
	// PartialJobRunning: a Redrive or a Purge holds messages. It paused during the look.
	PartialJobRunning PartialReason = "JobRunning"
	// PartialDepth: there are more messages than a look goes through.
	PartialDepth PartialReason = "DepthReached"
	// PartialTime: the look took too long.
	PartialTime PartialReason = "TimeReached"
	// PartialUnreadable: the broker cannot deliver a message over AMQP 0-9-1, nor what stands behind it.
	PartialUnreadable PartialReason = "UnreadableMessage"
	// PartialDelayed: a policy or an argument has RabbitMQ hide messages for some time after a look or a job has given them back.
	PartialDelayed PartialReason = "ReturnsDelayed"
)

// Group are the messages that died for one reason in one queue, with one value of the header that somebody groups by.
type Group struct {
	// reason is why they died: Rejected, Expired, MaxLength, DeliveryLimit or Parked.
	// +required
	Reason string `json:"reason"`
	// queue is where the messages died; empty if unknown.
	Queue string `json:"queue,omitempty"`
	// value is that of the header; absent if the messages lack the header.
	Value *string `json:"value,omitempty"`
	// count is how many messages the group has.
	Count int64 `json:"count"`
	// redriven is how many of them were moved back before, and failed again.
	Redriven int64 `json:"redriven,omitempty"`
	// oldest is when the first of them died, as far as they tell.
	Oldest *metav1.Time `json:"oldest,omitempty"`
	// newest is when the last of them died, as far as they tell.
	Newest *metav1.Time `json:"newest,omitempty"`
	// sampleID is the ID of the first one.
	SampleID string `json:"sampleID"`
}

// DeadLetterList are messages of a dead-letter queue.
type DeadLetterList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is empty: nextPosition takes the place of its continue.
	metav1.ListMeta `json:"metadata"`
	// queue is the name of the queue at the broker.
	Queue string `json:"queue"`
	// ready is how many messages were ready.
	Ready int64 `json:"ready"`
	Seen  `json:",inline"`
	// nextPosition is where the next page begins; absent at the end.
	NextPosition *int64 `json:"nextPosition,omitempty"`
	// items are of type DeadLetter.
	Items []json.RawMessage `json:"items"`
}

// DeadLetter is a message.
type DeadLetter struct {
	// position counts from the head of the queue, from zero. It changes when messages leave or come back; the ID does not.
	Position int64 `json:"position"`
	// id identifies the message by what it holds: messages that are alike share their ID.
	ID string `json:"id"`
	// reason is why the message died: Rejected, Expired, MaxLength, DeliveryLimit or Parked.
	Reason string `json:"reason"`
	// origin is where the message was before.
	Origin Origin `json:"origin"`
	// redrives is how often the message was moved back before.
	Redrives int64 `json:"redrives,omitempty"`
	// properties are those that the message has, by their names in AMQP.
	Properties map[string]any `json:"properties,omitempty"`
	// headers are plain values. Those that seem to hold credentials are redacted.
	Headers map[string]any `json:"headers,omitempty"`
	// size is the length of the body in bytes.
	Size int64 `json:"size"`
	// body is text, or base64 as bodyEncoding says.
	Body string `json:"body"`
	// bodyEncoding says how the body is written.
	BodyEncoding Encoding `json:"bodyEncoding"`
	// bodyTruncated says that the body goes on.
	BodyTruncated bool `json:"bodyTruncated"`
	// warnings are what whoever looks should know.
	Warnings []Warning `json:"warnings,omitempty"`
}

// Origin is where a message was before it came to the dead-letter queue, as far as it tells.
type Origin struct {
	// queue is where the message died, or the main queue of the consumer that parked the message.
	Queue string `json:"queue,omitempty"`
	// exchange is where the message was published first.
	Exchange *string `json:"exchange,omitempty"`
	// routingKey is the key with which the message was published first.
	RoutingKey *string `json:"routingKey,omitempty"`
	// diedAt is when the message died there first.
	DiedAt *metav1.Time `json:"diedAt,omitempty"`
}

// Encoding says how bytes are written.
type Encoding string

// The encodings.
const (
	UTF8   Encoding = "utf8"
	Base64 Encoding = "base64"
)

// Warning is something that whoever looks at a message should know.
type Warning string

// The warnings.
const (
	// WarningExpiresInQueue: the message has an expiration, and is deleted when that is over.
	WarningExpiresInQueue Warning = "ExpiresInQueue"
	// WarningCameBack: the message was moved back before, and failed again.
	WarningCameBack Warning = "CameBack"
	// WarningNoOrigin: the message does not tell which queue it comes from.
	WarningNoOrigin Warning = "NoOrigin"
	// WarningAMQP10: the message was published over AMQP 1.0, and not all of it can be seen or moved over AMQP 0-9-1.
	WarningAMQP10 Warning = "AMQP10"
)

// ExportedDeadLetter is a message as it is, a line of an export.
type ExportedDeadLetter struct {
	// kind is ExportedDeadLetter.
	Kind string `json:"kind"`
	// position counts from the head of the queue, from zero.
	Position int64 `json:"position"`
	// id identifies the message by what it holds.
	ID string `json:"id"`
	// exchange is where the message was published or dead-lettered last.
	Exchange string `json:"exchange"`
	// routingKey is the key with which that happened.
	RoutingKey string `json:"routingKey"`
	// properties are those of AMQP 0-9-1 that the message has, but for headers.
	Properties map[string]any `json:"properties"`
	// headers have their types.
	Headers map[string]TypedValue `json:"headers"`
	// body is base64.
	Body []byte `json:"body"`
}

// TypedValue is a field of AMQP 0-9-1 with its type, as the table of RabbitMQ names them: boolean, byte, unsignedbyte, short,
// unsignedshort, int, unsignedint, long, float, double, decimal, longstr, binary (base64), timestamp (RFC 3339), array, table, void.
type TypedValue struct {
	// type is the name of the type.
	Type string `json:"type"`
	// encoding is base64 where a longstr is no UTF-8, and empty otherwise.
	Encoding Encoding `json:"encoding,omitempty"`
	// value is the value as JSON.
	Value any `json:"value"`
}

// ExportEnd is the last line of an export. An export is complete only with this line, if partial is false and there is no error.
type ExportEnd struct {
	// kind is ExportEnd.
	Kind string `json:"kind"`
	// count is how many messages were written.
	Count int64 `json:"count"`
	// ready is how many messages were ready when the export looked at the queue last, whatever was selected.
	Ready int64 `json:"ready"`
	Seen  `json:",inline"`
	// error says why the export ended early; empty if it did not.
	Error string `json:"error,omitempty"`
}
