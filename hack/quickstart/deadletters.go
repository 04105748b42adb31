package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/test/traffic"
)

// redriveManifest is the Redrive of the tour.
const redriveManifest = `apiVersion: messaging.warren.dev/v1alpha1
kind: Redrive
metadata:
  name: again
spec:
  consumerQueueRef: {name: orders}
  reason: the payment API is back
`

// redrive rejects messages, browses them in the dead-letter queue, and moves them back.
func (t *tour) redrive() {
	say("Dead letters: a consumer rejects three messages")
	bodies := []string{`{"order": 1}`, `{"order": 2}`, `{"order": 3}`}
	consumer := traffic.Consume(t.tb, t.vhost, "orders", func(traffic.Delivery) traffic.Action { return traffic.Reject })
	t.vhost.Publish("", "orders", bodies...)
	t.awaitMessages("orders.dlq", len(bodies))
	consumer.Stop()
	t.browse(bodies)
	fmt.Println("\nThe cause is fixed, and a Redrive moves them back:")
	fmt.Print(redriveManifest)
	fmt.Println("$ kubectl create -f -")
	fmt.Print(t.kubectl(redriveManifest, "create", "-f", "-"))
	t.show("wait", "--for=condition=Ready", "redrive/again", "--timeout=60s")
	t.show("get", "redrives", "-o", "wide")
	t.awaitMessages("orders", len(bodies))
}

// awaitMessages waits until a queue has count messages.
func (t *tour) awaitMessages(queue string, count int) {
	t.until(fmt.Sprintf("queue %s does not have %d messages", queue, count), func() error {
		if ready := t.vhost.Ready(queue); ready != count {
			return fmt.Errorf("it has %d", ready)
		}
		return nil
	})
}

// browse shows the dead letters as a ServiceAccount with permission to browse them.
func (t *tour) browse(want []string) {
	fmt.Println("Why were they dead-lettered, and what is in them? A ServiceAccount with permission browses them:")
	t.show("apply", "--server-side", "-f", "config/rbac/deadletterqueue_editor_role.yaml")
	t.show("create", "serviceaccount", "warren-dead-letters")
	t.show("create", "rolebinding", "warren-dead-letters", "--clusterrole=deadletterqueue-editor-role",
		"--serviceaccount=default:warren-dead-letters")
	fmt.Println("$ token=$(kubectl create token warren-dead-letters --audience=warren)")
	token := strings.TrimSpace(t.kubectl("", "create", "token", "warren-dead-letters", "--audience="+v1alpha1.Audience))
	url := "https://" + t.deadLetters + "/apis/" + v1alpha1.GroupVersion.String() + "/namespaces/default/deadletterqueues/orders/messages"
	fmt.Printf("$ curl --insecure --header \"Authorization: Bearer $token\" %s\n# The response, shortened:\n", url)
	t.until("cannot browse the dead letters", func() error { return showMessages(t.tb.Context(), url, token, want) })
}

// showMessages prints the dead letters, and returns an error unless they have the given bodies.
func showMessages(ctx context.Context, url, token string, want []string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	// The operator's certificate is self-signed.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // on the loopback
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		return err
	}
	list := v1alpha1.DeadLetterList{}
	if err := json.Unmarshal(answer, &list); err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, answer)
	}
	if len(list.Items) != len(want) {
		return fmt.Errorf("expected %[2]d dead letters, got %[1]d", len(list.Items), len(want))
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 3, ' ', 0)
	fmt.Fprintln(w, "POSITION\tID\tREASON\tDIED IN\tBODY")
	for i, item := range list.Items {
		deadLetter := v1alpha1.DeadLetter{}
		if err := json.Unmarshal(item, &deadLetter); err != nil || deadLetter.Body != want[i] {
			return fmt.Errorf("message %d is %s", i, item)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", deadLetter.Position, deadLetter.ID,
			deadLetter.Reason, deadLetter.Origin.Queue, deadLetter.Body)
	}
	return w.Flush()
}
