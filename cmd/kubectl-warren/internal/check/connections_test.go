package check

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
)

const bcShop = "BrokerConnection shop/default"

func ready(status metav1.ConditionStatus, reason, message string) []metav1.Condition {
	return []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: message}}
}

// healthy returns a BrokerConnection that lacks nothing.
func healthy() *v1alpha1.BrokerConnection {
	return &v1alpha1.BrokerConnection{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "default", Generation: 2},
		Spec:       v1alpha1.BrokerConnectionSpec{ResyncInterval: "30s"},
		Status: v1alpha1.BrokerConnectionStatus{
			Conditions: ready("True", "Connected", "connected"), ObservedGeneration: 2, BrokerVersion: "4.3.1",
			Capabilities: &v1alpha1.BrokerCapabilities{Policies: true, Events: true},
		},
	}
}

func orders(status metav1.ConditionStatus, reason, message string) []v1alpha1.ConsumerQueue {
	return []v1alpha1.ConsumerQueue{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"},
		Status:     v1alpha1.ConsumerQueueStatus{Conditions: ready(status, reason, message)},
	}}
}

var inSync = orders("True", "InSync", "")

func TestConnections(t *testing.T) {
	t.Parallel()
	want := map[string]Result{
		"connection":       {OK, "connection", bcShop, "connected", ""},
		"broker version":   {OK, "broker version", bcShop, "RabbitMQ 4.3.1", ""},
		"user tags":        {OK, "user tags", bcShop, "the user has the tag policymaker", ""},
		"events":           {OK, "events", bcShop, "Warren sees changes at the broker immediately", ""},
		"user permissions": {OK, "user permissions", bcShop, "no permission is missing for 1 ConsumerQueue", ""},
		"ConsumerQueues":   {OK, "ConsumerQueues", "ConsumerQueues", "Ready: 1", ""},
	}
	for name, test := range map[string]struct {
		change func(*v1alpha1.BrokerConnection)
		queues []v1alpha1.ConsumerQueue
		// differs are the results that differ from want.
		differs []Result
	}{
		"all is well": {func(*v1alpha1.BrokerConnection) {}, inSync, nil},
		"an administrator": {
			func(bc *v1alpha1.BrokerConnection) { bc.Status.Capabilities.Definitions = true }, inSync,
			[]Result{{OK, "user tags", bcShop, "the user has the tag administrator", ""}},
		},
		"a user without policymaker": {
			func(bc *v1alpha1.BrokerConnection) { bc.Status.Capabilities.Policies = false }, inSync,
			[]Result{{
				Warning, "user tags", bcShop,
				"the user lacks the tag policymaker, so Warren recreates no queue, and deletes queues only with deletionPolicy Delete",
				"Add policymaker to the tags of the user in the Secret. set_user_tags replaces all tags, so include the current ones:\n" +
					"  rabbitmqctl list_users\n  rabbitmqctl set_user_tags USER PRESENT_TAGS policymaker",
			}},
		},
		"no events": {
			func(bc *v1alpha1.BrokerConnection) {
				bc.Status.Capabilities.Events, bc.Status.Capabilities.EventsReason = false, "no exchange"
			}, inSync,
			[]Result{{Warning, "events", bcShop, "Warren sees changes at the broker only every 30s: no exchange", "Enable rabbitmq_event_exchange: " +
				"https://warren-mq.github.io/warren/broker-connection/#event-feed-see-changes-immediately"}},
		},
		"a refused password": {
			func(bc *v1alpha1.BrokerConnection) {
				bc.Status.Conditions = ready("False", "AuthenticationFailed", "refused")
			}, inSync,
			[]Result{{
				Failed, "connection", bcShop, "AuthenticationFailed: refused",
				"https://warren-mq.github.io/warren/troubleshooting/broker/#authenticationfailed explains the reason.",
			}},
		},
		"suspended": {
			func(bc *v1alpha1.BrokerConnection) { bc.Spec.Suspend = true }, inSync,
			[]Result{{Warning, "connection", bcShop, "spec.suspend is true, so Warren does nothing at the broker", "Set spec.suspend to false."}},
		},
		"not reconciled": {
			func(bc *v1alpha1.BrokerConnection) { bc.Generation = 3 }, inSync,
			[]Result{{
				Failed, "connection", bcShop, "Warren has not read the current spec",
				"Wait some seconds. If nothing changes, check that a manager leads, and that it watches the namespace (--watch-namespaces).",
			}},
		},
		"a broker that is too old": {
			func(bc *v1alpha1.BrokerConnection) { bc.Status.BrokerVersion = "3.9.29" }, inSync,
			[]Result{{Failed, "broker version", bcShop, "RabbitMQ 3.9.29 is too old, so Warren declares nothing", "Upgrade RabbitMQ to 3.10 or newer."}},
		},
		"a broker that is too new": {
			func(bc *v1alpha1.BrokerConnection) { bc.Status.BrokerVersion = "4.4.0" }, inSync,
			[]Result{{
				Warning, "broker version", bcShop, "RabbitMQ 4.4.0 is newer than the tested versions. Warren treats it as 4.3",
				"Use a tested version, or upgrade Warren.",
			}},
		},
		"a missing permission": {
			func(*v1alpha1.BrokerConnection) {}, orders("False", "PermissionDenied", `configure access to queue "orders" refused`),
			[]Result{
				{
					Failed, "user permissions", bcShop, `ConsumerQueue orders: configure access to queue "orders" refused`,
					"Give the user the permissions with rabbitmqctl set_permissions: " +
						"https://warren-mq.github.io/warren/broker-connection/#permissions-of-the-rabbitmq-user",
				},
				{
					Failed, "ConsumerQueues", "ConsumerQueues", "1 of 1 not Ready: shop/orders (PermissionDenied)",
					"See why:\n  kubectl warren status NAME --namespace NAMESPACE\nhttps://warren-mq.github.io/warren/troubleshooting/ explains each reason.",
				},
			},
		},
		"no ConsumerQueue": {func(*v1alpha1.BrokerConnection) {}, nil, []Result{
			{
				Skipped, "user permissions", bcShop, "no ConsumerQueue uses the connection, so Warren has needed no permission yet",
				"Create a ConsumerQueue, and run the command again.",
			},
			{OK, "ConsumerQueues", "ConsumerQueues", "there is none in namespace \"shop\"", ""},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bc := healthy()
			test.change(bc)
			expected := maps.Clone(want)
			for _, result := range test.differs {
				expected[result.Check] = result
			}
			got := map[string]Result{}
			for _, result := range Connections([]v1alpha1.BrokerConnection{*bc}, test.queues, `in namespace "shop"`) {
				got[result.Check] = result
			}
			if difference := cmp.Diff(expected, got); difference != "" {
				t.Errorf("(-want +got):\n%s", difference)
			}
		})
	}
}

func TestNoConnection(t *testing.T) {
	t.Parallel()
	want := Result{
		Warning, "connection", "BrokerConnections", `there is none in namespace "shop"`,
		"Create one: https://warren-mq.github.io/warren/broker-connection/. For other namespaces, add --namespace NAME, or -A for all.",
	}
	if difference := cmp.Diff(want, Connections(nil, nil, `in namespace "shop"`)[0]); difference != "" {
		t.Errorf("(-want +got):\n%s", difference)
	}
}

// Each reason that a BrokerConnection can have is linked to its entry in docs/troubleshooting.
func TestEachReasonHasALinkedEntry(t *testing.T) {
	t.Parallel()
	const root = "../../../.."
	reasons := map[string]bool{v1alpha1.ReasonPending: true, v1alpha1.ReasonTerminating: true}
	files, err := filepath.Glob(root + "/internal/controller/brokerconnection/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`v1alpha1\.Reason(\w+)`).FindAllStringSubmatch(string(code), -1) {
			reasons[found[1]] = true
		}
	}
	if !reasons[v1alpha1.ReasonInvalidSpec] || !reasons[v1alpha1.ReasonConnecting] {
		t.Fatalf("found %v", reasons)
	}
	delete(reasons, v1alpha1.ReasonConnected) // Ready is True, so the result has no remedy
	for reason := range reasons {
		bc := healthy()
		bc.Status.Conditions = ready("False", reason, "why")
		link := regexp.MustCompile(`troubleshooting/([a-z-]+)/#([a-z]+) `).FindStringSubmatch(connection(bc).Remedy)
		if link == nil {
			t.Errorf("%s: no link in %q", reason, connection(bc).Remedy)
			continue
		}
		page, err := os.ReadFile(filepath.Join(root, "docs", "troubleshooting", link[1]+".md"))
		if err != nil {
			t.Error(err)
		}
		if link[2] != strings.ToLower(reason) || !strings.Contains(string(page), "\n## `"+reason+"`\n") {
			t.Errorf("%s: %s has no entry", reason, link[0])
		}
	}
}
