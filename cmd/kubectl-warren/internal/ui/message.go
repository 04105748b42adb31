package ui

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	deadletters "github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/letters"
)

const (
	// mostBody is how much of a body is shown, in bytes, and mostHex how much of that in hexadecimal.
	mostBody = 1 << 20
	mostHex  = 16 << 10
)

// messagePage is the third view: one message.
type messagePage struct {
	Namespace, Name, Queue string
	deadletters.DeadLetter
	OriginText string
	// Failure is what the consumer says went wrong; empty if the message does not tell.
	Failure string
	// HeaderLines and Body are as `kubectl warren dlq peek` prints them.
	HeaderLines []string
	Text, Hex   string
	// Query selects the message.
	Query template.URL
}

func (s *Server) message(w http.ResponseWriter, r *http.Request) error {
	namespace, name, id := r.PathValue("namespace"), r.PathValue("queue"), r.PathValue("id")
	asked, err := s.DeadLetters(r.Context(), namespace)
	if err != nil {
		return err
	}
	answer := deadletters.DeadLetterList{}
	query := url.Values{parameterID: {id}, "limit": {"1"}, "bodyLimit": {fmt.Sprint(mostBody)}}
	if err := ask(r.Context(), asked, name, deadletters.SubresourceMessages, query, &answer); err != nil {
		return err
	}
	decoded, err := letters.Decode(answer)
	if err != nil {
		return err
	}
	if len(decoded) == 0 {
		return &problem{http.StatusNotFound, fmt.Sprintf("Message %s is not in queue %q, or a consumer or a job holds it. Go back to the "+
			"queue to see which messages are there.", id, answer.Queue)}
	}
	letter := decoded[0]
	return render(w, "message", messagePage{
		Namespace: namespace, Name: name, Queue: answer.Queue, DeadLetter: letter,
		OriginText: letters.OriginText(letter.Origin), Failure: letters.Failure(letter),
		HeaderLines: letters.HeaderLines(letter.Headers), Text: strings.Join(letters.BodyLines(letter), "\n"), Hex: hexOf(letter),
		Query: template.URL(selection{IDs: []string{letter.ID}}.values().Encode()),
	})
}

// hexOf is the beginning of a body that is text in hexadecimal; others are shown so anyway.
func hexOf(letter deadletters.DeadLetter) string {
	if letter.BodyEncoding == deadletters.Base64 {
		if _, err := base64.StdEncoding.DecodeString(letter.Body); err == nil {
			return ""
		}
	}
	return hex.Dump([]byte(letter.Body[:min(len(letter.Body), mostHex)]))
}
