package letters

// Reasons are the words for why messages come to a dead-letter queue.
var Reasons = []string{"Rejected", "Expired", "MaxLength", "DeliveryLimit", "Parked"}

var reasonTexts = map[string]string{
	"Rejected":      "a consumer rejected the message",
	"Expired":       "the message waited longer than its TTL",
	"MaxLength":     "the queue was full",
	"DeliveryLimit": "the message was delivered too often",
	"Parked":        "a consumer published the message to the dead-letter queue",
}

// ReasonText says what a reason means; empty if it is none of Reasons.
func ReasonText(reason string) string { return reasonTexts[reason] }
