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
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/deadlettertext"
)

const (
	// maxBody is how many bytes of a body are shown, and maxHex how many of these in hexadecimal.
	maxBody = 1 << 20
	maxHex  = 16 << 10
)

// messagePage is the third view: one message.
type messagePage struct {
	Namespace, Name, Queue string
	deadletters.DeadLetter
	OriginText string
	// Failure is the failure that the consumer recorded; empty if there is none.
	Failure string
	// HeaderLines and Body are formatted as by `kubectl warren dlq peek`.
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
	query := url.Values{parameterID: {id}, "limit": {"1"}, "bodyLimit": {fmt.Sprint(maxBody)}}
	if err := ask(r.Context(), asked, name, deadletters.SubresourceMessages, query, &answer); err != nil {
		return err
	}
	decoded, err := deadlettertext.Decode(answer)
	if err != nil {
		return err
	}
	if len(decoded) == 0 {
		return &problem{http.StatusNotFound, fmt.Sprintf("Message %s is not in queue %q, or a consumer or a job holds it. Go back to the "+
			"queue to see which messages are there.", id, answer.Queue)}
	}
	deadLetter := decoded[0]
	return render(w, "message", messagePage{
		Namespace: namespace, Name: name, Queue: answer.Queue, DeadLetter: deadLetter,
		OriginText: deadlettertext.OriginText(deadLetter.Origin), Failure: deadlettertext.Failure(deadLetter),
		HeaderLines: deadlettertext.HeaderLines(deadLetter.Headers), Text: strings.Join(deadlettertext.BodyLines(deadLetter), "\n"),
		Hex:   hexOf(deadLetter),
		Query: template.URL(selection{IDs: []string{deadLetter.ID}}.values().Encode()),
	})
}

// hexOf returns the beginning of a text body in hexadecimal. Other bodies are always shown in hexadecimal.
func hexOf(deadLetter deadletters.DeadLetter) string {
	if deadLetter.BodyEncoding == deadletters.Base64 {
		if _, err := base64.StdEncoding.DecodeString(deadLetter.Body); err == nil {
			return ""
		}
	}
	return hex.Dump([]byte(deadLetter.Body[:min(len(deadLetter.Body), maxHex)]))
}
