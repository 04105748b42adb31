package preview_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/preview"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/conformance"
)

// describe formats the action of each object that changes.
func describe(made preview.Preview) []string {
	var lines []string
	for _, object := range made.Objects {
		if object.Action == preview.Unchanged {
			continue
		}
		name := object.Name
		if object.Kind == v1alpha1.KindBinding {
			name = fmt.Sprintf("%s -> %s %q", object.Source, object.Destination, object.RoutingKey)
		}
		line := fmt.Sprintf("%s %s %s", object.Action, object.Kind, name)
		for _, difference := range object.Differences {
			line += fmt.Sprintf(", %s %s should be %s", difference.Path, difference.Observed, difference.Desired)
		}
		lines = append(lines, line)
	}
	return lines
}

// synced returns a ConsumerQueue whose status reports that it is in sync.
func synced(t *testing.T, spec string, version vhost.Version) *v1alpha1.ConsumerQueue {
	t.Helper()
	return reported(t, topologytest.ConsumerQueue(t, spec), version, func(*vhost.Observed) {})
}

// reported returns a ConsumerQueue with the status for a broker that has its topology with some change.
func reported(t *testing.T, cq *v1alpha1.ConsumerQueue, version vhost.Version, change func(*vhost.Observed)) *v1alpha1.ConsumerQueue {
	t.Helper()
	desired, err := topology.Desired(cq, version)
	if err != nil {
		t.Fatal(err)
	}
	observed := topologytest.Observe(t, desired)
	before := plan.Diff(desired, observed, plan.Input{})
	known := topology.InventoryOf(plan.MergeInventory(before, nil, plan.Plan{}))
	change(&observed)
	comparison := plan.Diff(desired, observed, plan.Input{})
	cq = cq.DeepCopy()
	cq.Generation, cq.Status.ObservedGeneration = 1, 1
	cq.Status.Topology = plan.MergeInventory(comparison, known, plan.Plan{})
	cq.Status.Changes = comparison.Changes
	return cq
}

func TestOnEmptyBroker(t *testing.T) {
	t.Parallel()
	made, err := preview.OnEmptyBroker(topologytest.ConsumerQueue(t, `
bindings:
- {exchange: {name: shop}, routingKeys: [placed]}
retry: {delayTiers: [{delay: 1m}]}
`), vhost.RabbitMQ43)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"Declare Exchange orders.dlx",
		"Declare Queue orders",
		"Declare Queue orders.retry.1m",
		"Declare Queue orders.dlq",
		`Bind Binding shop -> orders "placed"`,
		`Bind Binding orders.dlx -> orders.dlq ""`,
	}
	if difference := cmp.Diff(want, describe(made)); difference != "" {
		t.Errorf("objects (-want +got):\n%s", difference)
	}
	if notes := strings.Join(made.Notes, "; "); !strings.Contains(notes, `exchange "shop" is assumed to exist`) {
		t.Errorf("notes: %q", notes)
	}
	if !made.Differs() {
		t.Error("nothing differs, and yet all is to be declared")
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	cq := topologytest.ConsumerQueue(t, `retry: {strategy: Requeue, redeliveryDelay: {min: 1s, max: 1m}}`)
	_, err := preview.OnEmptyBroker(cq, vhost.RabbitMQ40)
	if refusal, ok := errors.AsType[*topology.Refusal](err); !ok || refusal.Reason != v1alpha1.ReasonUnsupportedByBroker {
		t.Errorf("want a refusal as UnsupportedByBroker, got %v", err)
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	const tiers = "retry: {delayTiers: [{delay: 30s}]}\n"
	for name, test := range map[string]struct {
		before, after string
		want          []string
	}{
		"nothing": {before: tiers, after: tiers},
		"an argument": {
			before: tiers, after: tiers + "queue: {messageTTL: 1h}",
			want: []string{"Recreate Queue orders, arguments.x-message-ttl  should be 3600000"},
		},
		"a further tier": {
			before: tiers, after: "retry: {delayTiers: [{delay: 30s}, {delay: 5m}]}",
			want: []string{"Declare Queue orders.retry.5m"},
		},
		"another tier": {
			before: tiers, after: "retry: {delayTiers: [{delay: 5m}]}",
			want: []string{"Declare Queue orders.retry.5m", "DeleteWhenEmpty Queue orders.retry.30s"},
		},
		"one tier less": {
			before: "retry: {delayTiers: [{delay: 30s}, {delay: 5m}]}", after: tiers,
			want: []string{"DeleteWhenEmpty Queue orders.retry.5m"},
		},
		"a type for an exchange that is there": {
			before: tiers + "bindings: [{exchange: {name: shop}, routingKeys: [a]}]",
			after:  "retry: {delayTiers: [{delay: 30s}, {delay: 5m}]}\nbindings: [{exchange: {name: shop, type: topic}, routingKeys: [a]}]",
			want:   []string{"Unknown Exchange shop", "Declare Queue orders.retry.5m"},
		},
		"no type any more": {
			before: tiers + "bindings: [{exchange: {name: shop, type: topic}, routingKeys: [a]}]",
			after:  tiers + "bindings: [{exchange: {name: shop}, routingKeys: [a]}]",
		},
		"another tier behind an exchange": {
			before: "retry: {exchange: {name: again}, delayTiers: [{delay: 30s}]}",
			after:  "retry: {exchange: {name: again}, delayTiers: [{delay: 5m}]}",
			want: []string{
				"Declare Queue orders.retry.5m", `Bind Binding again -> orders.retry.5m "orders.retry.5m"`,
				"DeleteWhenEmpty Queue orders.retry.30s", `Unbind Binding again -> orders.retry.30s "orders.retry.30s"`,
			},
		},
		"no exchange in front of the tiers": {
			before: "retry: {exchange: {name: again}, delayTiers: [{delay: 30s}]}", after: tiers,
			want: []string{"Delete Exchange again", `Unbind Binding again -> orders.retry.30s "orders.retry.30s"`},
		},
		"another routing key": {
			before: tiers + "bindings: [{exchange: {name: shop, type: topic}, routingKeys: [a]}]",
			after:  tiers + "bindings: [{exchange: {name: shop, type: topic}, routingKeys: [b]}]",
			want:   []string{`Bind Binding shop -> orders "b"`, `Unbind Binding shop -> orders "a"`},
		},
		"nothing new while something must be recreated": {
			before: tiers, after: "retry: {delayTiers: [{delay: 30s}, {delay: 5m}]}\nqueue: {maxLength: 10}",
			want: []string{
				"Recreate Queue orders, arguments.x-max-length  should be 10", "Wait Queue orders.retry.5m",
			},
		},
		"only a report": {
			before: tiers, after: "driftPolicy: Report\nretry: {delayTiers: [{delay: 30s}, {delay: 5m}]}",
			want: []string{"Wait Queue orders.retry.5m"},
		},
		"the strategy": {
			before: tiers, after: "retry: {strategy: Reject}",
			want: []string{
				"Recreate Exchange orders.dlx, type fanout should be headers",
				`Wait Binding orders.dlx -> orders.retry.30s ""`, `Wait Binding orders.dlx -> orders.dlq ""`,
				`Wait Binding orders.dlx -> orders.dlq ""`, `Wait Binding orders.dlx -> orders.dlq ""`,
				`Keep Binding orders.dlx -> orders.dlq ""`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster := synced(t, test.before, vhost.RabbitMQ43)
			made, err := preview.AgainstStatus(topologytest.ConsumerQueue(t, test.after), inCluster, vhost.RabbitMQ43, nil)
			if err != nil {
				t.Fatal(err)
			}
			if difference := cmp.Diff(test.want, describe(made)); difference != "" {
				t.Errorf("objects (-want +got):\n%s", difference)
			}
			if made.Differs() != (len(test.want) > 0) {
				t.Errorf("Differs is %t", made.Differs())
			}
			if len(made.Notes) > 0 {
				t.Errorf("notes: %q", made.Notes)
			}
		})
	}
}

// The status is sufficient to find the same differences again, on each version and for each vector.
func TestTheStatusTellsTheBroker(t *testing.T) {
	t.Parallel()
	for _, vector := range conformance.Load(t) {
		for _, version := range topologytest.Versions {
			if _, supported := vector.Expect(version); !supported {
				continue
			}
			for name, change := range map[string]func(*vhost.Observed){
				"as desired":     func(*vhost.Observed) {},
				"empty":          func(o *vhost.Observed) { *o = vhost.Observed{} },
				"without queues": func(o *vhost.Observed) { o.Queues, o.BindingsTo = nil, nil },
				"other arguments": func(o *vhost.Observed) {
					for name, queue := range o.Queues {
						arguments := maps.Clone(queue.Arguments)
						delete(arguments, vhost.ArgDeadLetterStrategy)
						arguments[vhost.ArgMaxLength] = int64(7)
						arguments["x-text"] = "7"
						o.Queues[name] = vhost.Queue{Durable: true, Arguments: arguments}
					}
				},
				"classic and fleeting": func(o *vhost.Observed) {
					for name := range o.Queues {
						o.Queues[name] = vhost.Queue{AutoDelete: true, Arguments: vhost.Arguments{vhost.ArgQueueType: vhost.TypeClassic}}
					}
					for name := range o.Exchanges {
						o.Exchanges[name] = vhost.Exchange{Type: "x-own", Internal: true}
					}
				},
			} {
				t.Run(fmt.Sprintf("%s on %s, %s", vector.Name, version, name), func(t *testing.T) {
					t.Parallel()
					for i := range vector.ConsumerQueues {
						cq := reported(t, &vector.ConsumerQueues[i], version, change)
						made, err := preview.AgainstStatus(cq, cq, version, nil)
						if err != nil {
							t.Fatal(err)
						}
						wantAsReported(t, cq.Status, made)
					}
				})
			}
		}
	}
}

// wantAsReported compares each object with its state and differences in the status.
func wantAsReported(t *testing.T, status v1alpha1.ConsumerQueueStatus, made preview.Preview) {
	t.Helper()
	var want, got []string
	for _, entry := range status.Topology {
		want = append(want, fmt.Sprintf("%s: %s", topology.IDOf(entry), entry.State))
	}
	for _, change := range status.Changes {
		if change.Effect == v1alpha1.EffectRecreate {
			want = append(want, fmt.Sprintf("%s %s: %s, should be %s", change.Name, change.Path, change.Observed, change.Desired))
		}
	}
	for _, object := range made.Objects {
		id := vhost.ID{Kind: vhost.Kind(object.Kind), Name: object.Name, Source: object.Source, Destination: object.Destination}
		got = append(got, fmt.Sprintf("%s: %s", id, object.State))
	}
	for _, object := range made.Objects {
		for _, difference := range object.Differences {
			got = append(got, fmt.Sprintf("%s %s: %s, should be %s", object.Name, difference.Path, difference.Observed, difference.Desired))
		}
	}
	if difference := cmp.Diff(want, got); difference != "" {
		t.Errorf("objects (- in the status, + made out):\n%s", difference)
	}
}

func TestNotes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*v1alpha1.ConsumerQueue)
		want   string
	}{
		"not compared yet":        {func(cq *v1alpha1.ConsumerQueue) { cq.Status = v1alpha1.ConsumerQueueStatus{} }, "lists no objects yet"},
		"the spec has moved on":   {func(cq *v1alpha1.ConsumerQueue) { cq.Generation = 2 }, "of generation 1 and the ConsumerQueue of generation 2"},
		"suspended":               {func(cq *v1alpha1.ConsumerQueue) { cq.Spec.Suspend = true }, "is suspended"},
		"objects are left out":    {func(cq *v1alpha1.ConsumerQueue) { cq.Status.TopologyOmitted = 3 }, "leaves out objects (3)"},
		"changes are left out":    {func(cq *v1alpha1.ConsumerQueue) { cq.Status.ChangesOmitted = 3 }, "leaves out changes (3)"},
		"the former spec was bad": {func(cq *v1alpha1.ConsumerQueue) { cq.Spec.Queue.MessageTTL = "soon" }, "has no topology on this broker"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster := synced(t, "queue: {messageTTL: 1h}", vhost.RabbitMQ43)
			test.change(inCluster)
			made, err := preview.AgainstStatus(topologytest.ConsumerQueue(t, "queue: {messageTTL: 1h}"), inCluster, vhost.RabbitMQ43, nil)
			if err != nil {
				t.Fatal(err)
			}
			if notes := strings.Join(made.Notes, "; "); !strings.Contains(notes, test.want) {
				t.Errorf("notes are %q, want %q among them", notes, test.want)
			}
		})
	}
}

// Objects that differ only because of a broker upgrade work, and the preview says so.
func TestBrokerUpgraded(t *testing.T) {
	t.Parallel()
	inCluster := synced(t, "{}", vhost.RabbitMQ310)
	for i := range inCluster.Status.Topology {
		if entry := &inCluster.Status.Topology[i]; entry.Name == "orders.dlq" {
			entry.State = v1alpha1.StateRecreationRequired
		}
	}
	inCluster.Status.Changes = []v1alpha1.Change{{
		Kind: v1alpha1.KindQueue, Name: "orders.dlq", Path: "arguments.x-delivery-limit", Desired: "-1", Effect: v1alpha1.EffectRecreate,
	}}
	made, err := preview.AgainstStatus(inCluster, inCluster, vhost.RabbitMQ43, nil)
	if err != nil {
		t.Fatal(err)
	}
	if difference := cmp.Diff([]string{"Recreate Queue orders.dlq, arguments.x-delivery-limit  should be -1"}, describe(made)); difference != "" {
		t.Errorf("objects (-want +got):\n%s", difference)
	}
	if notes := strings.Join(made.Notes, "; "); !strings.Contains(notes, "on an older RabbitMQ") {
		t.Errorf("notes: %q", notes)
	}
	if made.Recreation != nil {
		t.Errorf("recreatePolicy is Manual, and the plan has the consequences of a recreation: %v", made.Recreation)
	}
	inCluster.Spec.RecreatePolicy = v1alpha1.RecreatePolicyWhenEmpty
	made, err = preview.AgainstStatus(inCluster, inCluster, vhost.RabbitMQ43, nil)
	if err != nil {
		t.Fatal(err)
	}
	if made.Recreation == nil || !made.Recreation.NeedsApproval || len(made.Recreation.Consequences) == 0 {
		t.Errorf("the plan to approve has no consequences: %+v", made.Recreation)
	}
}

// If the spec changed while Warren was not running, the state of the broker is unknown.
func TestStaleStatus(t *testing.T) {
	t.Parallel()
	inCluster := synced(t, "{}", vhost.RabbitMQ43)
	inCluster.Spec.Queue = &v1alpha1.QueueSpec{QueueSettings: v1alpha1.QueueSettings{MessageTTL: "1h"}}
	made, err := preview.AgainstStatus(inCluster, inCluster, vhost.RabbitMQ43, nil)
	if err != nil {
		t.Fatal(err)
	}
	if difference := cmp.Diff([]string{"Unknown Queue orders"}, describe(made)); difference != "" {
		t.Errorf("objects (-want +got):\n%s", difference)
	}
	back, err := preview.AgainstStatus(topologytest.ConsumerQueue(t, "{}"), inCluster, vhost.RabbitMQ43, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := describe(back); len(got) > 0 {
		t.Errorf("the spec that the status speaks of differs: %q", got)
	}
}

func TestWhatOthersShareStays(t *testing.T) {
	t.Parallel()
	inCluster := synced(t, "bindings: [{exchange: {name: shop, type: topic}}]", vhost.RabbitMQ43)
	other := synced(t, "{}", vhost.RabbitMQ43)
	after := topologytest.ConsumerQueue(t, "deadLetter: {queue: {name: dead}}")
	for name, test := range map[string]struct {
		others     []v1alpha1.ConsumerQueue
		advisories []v1alpha1.Advisory
		want       bool
	}{
		"alone":            {want: true},
		"shared":           {others: []v1alpha1.ConsumerQueue{*other}},
		"another instance": {advisories: []v1alpha1.Advisory{{Code: v1alpha1.AdvisorySharedVHost, Message: "another instance of Warren works on this vhost (owner a). Until that instance stops, this one removes nothing"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster := inCluster.DeepCopy()
			inCluster.Status.Advisories = test.advisories
			made, err := preview.AgainstStatus(after, inCluster, vhost.RabbitMQ43, test.others)
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.Contains(describe(made), "DeleteWhenEmpty Queue orders.dlq"); got != test.want {
				t.Errorf("that orders.dlq is orphaned is said: %t, want %t, in %q", got, test.want, describe(made))
			}
		})
	}
}
