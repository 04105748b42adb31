package cli

import (
	"bytes"
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/check"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/preview"
	"github.com/warren-mq/warren/internal/vhost"
)

// recorded are statuses that Warren wrote for a real broker. The tests of Argo CD's health checks use them, too.
const recorded = "../../../../../config/argocd/resource_customizations/messaging.warren.dev/ConsumerQueue/testdata/"

// The output for ConsumerQueues of a cluster.
func TestPrinted(t *testing.T) {
	t.Parallel()
	for _, name := range []string{recorded + "healthy", recorded + "recreation_required", recorded + "pending", "foreign"} {
		cq := load(t, name)
		for what, print := range map[string]func(*bytes.Buffer) error{
			"tree":   func(out *bytes.Buffer) error { return printTree(out, cq, false) },
			"diff":   func(out *bytes.Buffer) error { return printDiff(out, cq, true, false) },
			"status": func(out *bytes.Buffer) error { return printStatus(out, cq, false) },
			"list": func(out *bytes.Buffer) error {
				return printStatuses(out, []v1alpha1.ConsumerQueue{*cq}, tableLayout{namespaces: true, wide: true, head: true})
			},
			"planned": func(out *bytes.Buffer) error {
				made, err := preview.AgainstStatus(cq, cq, vhost.RabbitMQ43, nil)
				if err != nil {
					return err
				}
				return printPreview(out, made, false, false)
			},
		} {
			t.Run(what+" "+cq.Name, func(t *testing.T) {
				t.Parallel()
				golden(t, what+"-"+baseOf(name), printed(t, print))
			})
		}
	}
}

func TestStuckDeadLetters(t *testing.T) {
	t.Parallel()
	for want, cell := range map[string]cell{
		"-":             deadOrStuckCell(nil, nil),
		"7":             deadOrStuckCell(new(int64(7)), nil),
		"7, 2 stuck":    deadOrStuckCell(new(int64(7)), new(int64(2))),
		"0, 2000 stuck": deadOrStuckCell(new(int64(0)), new(int64(2000))),
	} {
		if cell.text != want {
			t.Errorf("%q, want %q", cell.text, want)
		}
	}
}

func TestChecks(t *testing.T) {
	t.Parallel()
	golden(t, "checks", printed(t, func(out *bytes.Buffer) error {
		printChecks(out, []check.Result{
			{State: check.OK, Check: "leader", Object: "Lease warren-system/warren.messaging.warren.dev", Message: "manager pod-1 leads"},
			{
				State: check.Warning, Check: "user tags", Object: "BrokerConnection shop/default", Message: "the user lacks the tag policymaker",
				Remedy: "Set the tags of the user:\n  rabbitmqctl set_user_tags USER management policymaker",
			},
			{State: check.Failed, Check: "ConsumerQueues", Object: "ConsumerQueues", Message: "1 of 3 not Ready", Remedy: "See why."},
		}, false)
		return nil
	}))
}

// Colours enclose words, and change no width.
func TestColours(t *testing.T) {
	t.Parallel()
	golden(t, "coloured", printed(t, func(out *bytes.Buffer) error { return printTree(out, load(t, "foreign"), true) }))
}

func TestCompared(t *testing.T) {
	t.Parallel()
	edited := load(t, recorded+"healthy")
	edited.Generation++
	for name, test := range map[string]struct {
		cq   *v1alpha1.ConsumerQueue
		want string
	}{
		"healthy": {load(t, recorded+"healthy"), ""},
		"pending": {
			load(t, recorded+"pending"),
			`ConsumerQueue "orders" has not been compared with the broker: Ready is Unknown (Pending): not reconciled yet`,
		},
		"edited": {
			edited,
			"ConsumerQueue \"orders\" has changed since Warren compared it with the broker: try again in a moment, or see `kubectl warren status orders`",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if err := checkCompared(test.cq); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
