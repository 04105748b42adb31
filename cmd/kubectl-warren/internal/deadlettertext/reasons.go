package deadlettertext

var reasonTexts = map[string]string{
	"Rejected":      "a consumer rejected the message",
	"Expired":       "the message waited longer than its TTL",
	"MaxLength":     "the queue was full",
	"DeliveryLimit": "the message was delivered too often",
	"Parked":        "a consumer published the message to the dead-letter queue",
}

// ReasonText returns the meaning of a reason; empty if it is unknown.
func ReasonText(reason string) string { return reasonTexts[reason] }
