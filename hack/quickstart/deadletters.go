package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
)

// moved is the Redrive of the tour.
const moved = `apiVersion: messaging.warren.dev/v1alpha1
kind: Redrive
metadata:
  name: again
spec:
  consumerQueueRef: {name: orders}
  reason: the payment API is back
`

// redrive has messages fail, looks at them, and moves them back.
func (t *tour) redrive(ctx context.Context) error {
	say("Dead letters: a consumer rejects three messages")
	bodies := []string{`{"order": 1}`, `{"order": 2}`, `{"order": 3}`}
	if err := t.broker.failToConsume("orders", bodies...); err != nil {
		return err
	}
	if err := t.awaitMessages(ctx, "orders.dlq", len(bodies)); err != nil {
		return err
	}
	if err := t.look(ctx, bodies); err != nil {
		return err
	}
	fmt.Println("\nThe cause is mended, and a Redrive moves them back:")
	fmt.Print(moved)
	fmt.Println("$ kubectl create -f -")
	output, err := t.kubectl(ctx, moved, "create", "-f", "-")
	fmt.Print(output)
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		{"wait", "--for=condition=Ready", "redrive/again", "--timeout=60s"},
		{"get", "redrives", "-o", "wide"},
	} {
		if err := t.show(ctx, args...); err != nil {
			return err
		}
	}
	return t.awaitMessages(ctx, "orders", len(bodies))
}

// look shows what is in the dead-letter queue to a ServiceAccount that may see it.
func (t *tour) look(ctx context.Context, want []string) error {
	fmt.Println("What did they die of, and what do they hold? A ServiceAccount that may see that asks the operator:")
	for _, args := range [][]string{
		{"apply", "--server-side", "-f", "config/rbac/deadletterqueue_editor_role.yaml"},
		{"create", "serviceaccount", "warren-dead-letters"},
		{
			"create", "rolebinding", "warren-dead-letters", "--clusterrole=deadletterqueue-editor-role",
			"--serviceaccount=default:warren-dead-letters",
		},
	} {
		if err := t.show(ctx, args...); err != nil {
			return err
		}
	}
	fmt.Println("$ token=$(kubectl create token warren-dead-letters --audience=warren)")
	token, err := t.kubectl(ctx, "", "create", "token", "warren-dead-letters", "--audience="+v1alpha1.Audience)
	if err != nil {
		return err
	}
	url := "https://" + t.deadLetters + "/apis/" + v1alpha1.GroupVersion.String() + "/namespaces/default/deadletterqueues/orders/messages"
	fmt.Printf("$ curl --insecure --header \"Authorization: Bearer $token\" %s\n# The answer in short:\n", url)
	return until(ctx, "the dead letters cannot be seen", func(ctx context.Context) error {
		return showMessages(ctx, url, strings.TrimSpace(token), want)
	})
}

// showMessages prints the dead letters, which must have these bodies.
func showMessages(ctx context.Context, url, token string, want []string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	// The operator has made its certificate itself.
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
		return fmt.Errorf("there are %d dead letters, not %d", len(list.Items), len(want))
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 3, ' ', 0)
	fmt.Fprintln(w, "POSITION\tID\tREASON\tDIED IN\tBODY")
	for i, item := range list.Items {
		letter := v1alpha1.DeadLetter{}
		if err := json.Unmarshal(item, &letter); err != nil || letter.Body != want[i] {
			return fmt.Errorf("message %d is %s", i, item)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", letter.Position, letter.ID, letter.Reason, letter.Origin.Queue, letter.Body)
	}
	return w.Flush()
}

// freeAddress is an address of this machine that nobody listens at.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed at once
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}
