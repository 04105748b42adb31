package deadletterapi

import (
	"encoding/base64"
	"regexp"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/internal/deadletter"
)

// describe returns a message as the API shows it, with at most bodyLimit bytes of its body.
func describe(deadLetter deadletter.Message, position, bodyLimit int, secret *regexp.Regexp) v1alpha1.DeadLetter {
	described := v1alpha1.DeadLetter{
		Position: int64(position), ID: deadletter.Fingerprint(deadLetter.Delivery), Reason: string(deadLetter.Reason),
		Origin: originOf(deadLetter.Origin), Redrives: int64(deadLetter.Redrives), Properties: propertiesOf(deadLetter.Delivery),
		Headers: plain(deadLetter.Headers, secret), Size: int64(len(deadLetter.Body)), Warnings: warningsOf(deadLetter),
	}
	described.Body, described.BodyEncoding, described.BodyTruncated = beginningOf(deadLetter.Body, bodyLimit)
	return described
}

// beginningOf returns at most limit bytes of a body or of a header's value. It does not split a character.
func beginningOf(whole []byte, limit int) (written string, encoding v1alpha1.Encoding, truncated bool) {
	begin := whole[:min(len(whole), limit)]
	truncated = len(begin) < len(whole)
	if !utf8.Valid(whole) {
		return base64.StdEncoding.EncodeToString(begin), v1alpha1.Base64, truncated
	}
	for !utf8.Valid(begin) {
		begin = begin[:len(begin)-1]
	}
	return string(begin), v1alpha1.UTF8, truncated
}

func originOf(origin deadletter.Origin) v1alpha1.Origin {
	known := v1alpha1.Origin{Queue: text(origin.Queue), DiedAt: timeOf(origin.DiedAt)}
	if origin.Routed {
		known.Exchange, known.RoutingKey = new(text(origin.Exchange)), new(text(origin.RoutingKey))
	}
	return known
}

func timeOf(at time.Time) *metav1.Time {
	if at.IsZero() {
		return nil
	}
	return new(metav1.NewTime(at.UTC()))
}

// propertiesOf returns the properties of a message, by their AMQP names in camel case.
func propertiesOf(message *amqp.Delivery) map[string]any {
	properties := deadletter.Properties(message)
	for name, value := range properties {
		switch value := value.(type) {
		case string:
			properties[name] = text(value)
		case time.Time:
			properties[name] = value.UTC().Format(time.RFC3339)
		}
	}
	return properties
}

func warningsOf(deadLetter deadletter.Message) []v1alpha1.Warning {
	var warnings []v1alpha1.Warning
	for _, warning := range []struct {
		name  v1alpha1.Warning
		holds bool
	}{
		{v1alpha1.WarningExpiresInQueue, deadLetter.Expiration != ""},
		{v1alpha1.WarningCameBack, deadLetter.Redrives > 0},
		{v1alpha1.WarningNoOrigin, deadLetter.Origin.Queue == ""},
		{v1alpha1.WarningAMQP10, deadLetter.Type == deadletter.TypeAMQP10},
	} {
		if warning.holds {
			warnings = append(warnings, warning.name)
		}
	}
	return warnings
}
