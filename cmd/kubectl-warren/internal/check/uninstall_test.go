package check

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/jobs"
)

func TestUninstall(t *testing.T) {
	t.Parallel()
	queue := func(policy v1alpha1.DeletionPolicy, change func(*v1alpha1.ConsumerQueue)) []v1alpha1.ConsumerQueue {
		list := orders("False", "Terminating", "the broker does not answer")
		list[0].Finalizers, list[0].Spec.DeletionPolicy = []string{v1alpha1.TopologyFinalizer}, policy
		change(&list[0])
		return list
	}
	asItIs := func(*v1alpha1.ConsumerQueue) {}
	protected := healthy()
	protected.Finalizers = []string{v1alpha1.ConnectionFinalizer}
	now := metav1.NewTime(time.Unix(0, 0))
	job := func(name string, completed *metav1.Time) jobs.Job {
		purge := &v1alpha1.Purge{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
		purge.Status.CompletionTime, purge.Status.Conditions = completed, ready("True", "Completed", "")
		return jobs.Of(purge)
	}
	const deleteOrders = "kubectl --namespace shop delete consumerqueue orders"
	for name, test := range map[string]struct {
		jobs        []jobs.Job
		queues      []v1alpha1.ConsumerQueue
		connections []v1alpha1.BrokerConnection
		want        []Result
	}{
		"nothing waits": {
			[]jobs.Job{job("done", &now)},
			inSync,
			[]v1alpha1.BrokerConnection{*healthy()},
			[]Result{{OK, "finalizers", "ConsumerQueues, BrokerConnections", "no deletion waits for a manager in any namespace", ""}},
		},
		"in the order of deletion": {
			[]jobs.Job{job("last", nil)},
			queue("DeleteIfEmpty", asItIs),
			[]v1alpha1.BrokerConnection{*protected},
			[]Result{
				{
					Warning, "jobs", "Purge shop/last", "it has not ended. Without a manager, its remaining messages stay in the dead-letter queue",
					"Wait until it ends, or cancel it:\n  kubectl warren dlq cancel purge/last --namespace shop",
				},
				{
					Failed, "finalizers", "ConsumerQueue shop/orders",
					"its deletion waits until Warren has deleted its empty queues and retained the others (deletionPolicy DeleteIfEmpty)", deleteOrders,
				},
				{
					Failed, "finalizers", bcShop, "its deletion waits until Warren has removed its fences at the broker, and until the ConsumerQueues that use it are gone (1)",
					"Delete it after its ConsumerQueues:\n  kubectl --namespace shop delete brokerconnection default",
				},
			},
		},
		"deletionPolicy Retain": {nil, queue("Retain", asItIs), nil, []Result{{
			Failed, "finalizers", "ConsumerQueue shop/orders",
			"its deletion waits until Warren has recorded which queues it retains (deletionPolicy Retain)", deleteOrders,
		}}},
		"deletionPolicy Delete": {nil, queue("Delete", asItIs), nil, []Result{{
			Failed, "finalizers", "ConsumerQueue shop/orders",
			"its deletion waits until Warren has deleted its queues with their messages (deletionPolicy Delete)", deleteOrders,
		}}},
		"a recreation under way": {
			nil, queue("Retain", func(cq *v1alpha1.ConsumerQueue) {
				cq.Finalizers, cq.Status.Recreation = nil, &v1alpha1.RecreationStatus{Phase: v1alpha1.RecreationEmptying}
			}), nil,
			[]Result{{
				Failed, "recreations", "ConsumerQueue shop/orders",
				"its queue is being recreated (phase Emptying). Without a manager, its messages and bindings stay at the hold queue",
				"Wait until the recreation ends, or abort it:\n  kubectl warren abort orders --namespace shop",
			}},
		},
		"a recreation that can no longer be aborted": {
			nil, queue("Retain", func(cq *v1alpha1.ConsumerQueue) {
				cq.Finalizers, cq.Status.Recreation = nil, &v1alpha1.RecreationStatus{Phase: v1alpha1.RecreationSwapping, DeleteSent: true}
			}), nil,
			[]Result{{
				Failed, "recreations", "ConsumerQueue shop/orders",
				"its queue is being recreated (phase Swapping). Without a manager, its messages and bindings stay at the hold queue",
				"Wait until the recreation ends",
			}},
		},
		"a recreation that is being backed out": {
			nil, queue("Retain", func(cq *v1alpha1.ConsumerQueue) {
				cq.Finalizers, cq.Status.Recreation = nil, &v1alpha1.RecreationStatus{Phase: v1alpha1.RecreationGivingBack}
			}), nil,
			[]Result{{
				Failed, "recreations", "ConsumerQueue shop/orders",
				"its queue is being recreated (phase GivingBack). Without a manager, its messages and bindings stay at the hold queue",
				"Wait until the recreation ends",
			}},
		},
		"a recreation that has not begun": {
			nil, queue("Retain", func(cq *v1alpha1.ConsumerQueue) {
				cq.Finalizers, cq.Status.Recreation = nil, &v1alpha1.RecreationStatus{Phase: v1alpha1.RecreationWaiting}
			}), nil,
			[]Result{{OK, "finalizers", "ConsumerQueues, BrokerConnections", "no deletion waits for a manager in any namespace", ""}},
		},
		"a deletion that has begun": {
			nil, queue("Delete", func(cq *v1alpha1.ConsumerQueue) { cq.DeletionTimestamp = &now }), nil,
			[]Result{{
				Failed, "finalizers", "ConsumerQueue shop/orders",
				"its deletion was requested at 1970-01-01T00:00:00Z, and waits for Warren: the broker does not answer",
				"Leave the manager running until the object is gone. Without a manager, remove the finalizer by hand: " +
					"https://warren-mq.github.io/warren/how-to/delete-a-consumerqueue/#remove-a-finalizer-by-hand",
			}},
		},
		"a finalizer that is not Warren's": {
			nil, queue("Delete", func(cq *v1alpha1.ConsumerQueue) { cq.Finalizers = []string{"other"} }), nil,
			[]Result{{OK, "finalizers", "ConsumerQueues, BrokerConnections", "no deletion waits for a manager in any namespace", ""}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if difference := cmp.Diff(test.want, Uninstall(test.jobs, test.queues, test.connections, "in any namespace")); difference != "" {
				t.Errorf("(-want +got):\n%s", difference)
			}
		})
	}
}

// The installation page and the notes of the chart give the order of the command. The notes of a release that works in single namespaces
// give it for each of them, because other releases can work in the others.
func TestOrderIsDocumented(t *testing.T) {
	t.Parallel()
	for page, want := range map[string][]string{
		"docs/installation.md":              Order(""),
		"charts/warren/templates/NOTES.txt": slices.Concat(Order("{{ . }}"), Order("")),
		"charts/warren/README.md.gotmpl":    Order(""),
	} {
		content, err := os.ReadFile("../../../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for line := range strings.Lines(string(content)) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "kubectl") && (strings.Contains(line, " delete ") && strings.Contains(line, " --all") ||
				strings.Contains(line, "check --uninstall")) {
				lines = append(lines, line)
			}
		}
		if difference := cmp.Diff(want, lines); difference != "" {
			t.Errorf("%s (-want +got):\n%s", page, difference)
		}
	}
}
