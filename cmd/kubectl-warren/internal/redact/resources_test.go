package redact

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// Each resource has the value "hidden" in every field that must not be published. The wanted YAML contains the other fields.
func TestResource(t *testing.T) {
	t.Parallel()
	const annotations = `annotations: {kubectl.kubernetes.io/last-applied-configuration: hidden, example.com/note: hidden, ` +
		`messaging.warren.dev/requested-at: hidden, messaging.warren.dev/completed-at: "2026-11-26T10:00:00Z"}`
	const metadata = `{namespace: shop, name: a, generation: 3, labels: {team: hidden}, finalizers: [messaging.warren.dev/topology], ` +
		`managedFields: [{manager: hidden}], ` + annotations + `}`
	for name, test := range map[string]struct {
		object      client.Object
		given, want string
	}{
		"ConsumerQueue": {
			&v1alpha1.ConsumerQueue{},
			`{spec: {bindings: [{exchange: {name: shop}, arguments: {x-token: hidden, x-match: all}}]},
			  status: {lastHandledReconcileAt: hidden, queueName: orders}}`,
			`bindings: [{arguments: {x-match: all, x-token: "[redacted]"}, exchange: {name: shop}}] | queueName: orders`,
		},
		"BrokerConnection": {
			&v1alpha1.BrokerConnection{},
			`{spec: {secretRef: {name: rabbitmq}, amqpURI: "amqp://hidden:hidden@mq", vhost: shop}, status: {brokerVersion: 4.3.1}}`,
			`amqpURI: "amqp://[redacted]@mq", secretRef: {name: rabbitmq}, vhost: shop | brokerVersion: 4.3.1`,
		},
		"Redrive": {
			&v1alpha1.Redrive{},
			`{spec: {consumerQueueRef: {name: orders}, requestedBy: hidden, reason: hidden,
			    selector: {expression: body.x == "hidden", headers: [{name: x-tenant, operator: In, values: [hidden, hidden]}]}},
			  status: {moved: 7, conditions: [{type: Ready, reason: InvalidSelector, status: "False", message: hidden}]}}`,
			`consumerQueueRef: {name: orders}, requestedBy: "[redacted]", reason: "[redacted]", selector: {expression: "[redacted]",
			   headers: [{name: x-tenant, operator: In, values: ["[redacted]", "[redacted]"]}]}
			 | moved: 7, conditions: [{type: Ready, reason: InvalidSelector, status: "False", message: "[redacted]", lastTransitionTime: null}]`,
		},
		"Purge": {
			&v1alpha1.Purge{},
			`{spec: {consumerQueueRef: {name: orders}, expectedAtMost: 1, requestedBy: hidden, selector: {expression: hidden}},
			  status: {conditions: [{type: Ready, reason: MoreThanExpected, status: "False", message: 3 messages match}]}}`,
			`consumerQueueRef: {name: orders}, expectedAtMost: 1, requestedBy: "[redacted]", selector: {expression: "[redacted]"}
			 | conditions: [{type: Ready, reason: MoreThanExpected, status: "False", message: 3 messages match, lastTransitionTime: null}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := yaml.Unmarshal([]byte(test.given), test.object); err != nil {
				t.Fatal(err)
			}
			meta := struct{ Metadata metav1.ObjectMeta }{}
			if err := yaml.Unmarshal([]byte("metadata: "+metadata), &meta); err != nil {
				t.Fatal(err)
			}
			given := meta.Metadata
			test.object.SetNamespace(given.Namespace)
			test.object.SetName(given.Name)
			test.object.SetGeneration(given.Generation)
			test.object.SetLabels(given.Labels)
			test.object.SetFinalizers(given.Finalizers)
			test.object.SetManagedFields(given.ManagedFields)
			test.object.SetAnnotations(given.Annotations)
			spec, status, _ := strings.Cut(test.want, "|")
			want := map[string]any{}
			wanted := `{metadata: {namespace: shop, name: a, generation: 3, uid: "", creationTimestamp: null, finalizers: [messaging.warren.dev/topology],
				annotations: {messaging.warren.dev/completed-at: "2026-11-26T10:00:00Z"}}, spec: {` + spec + `}, status: {` + status + `}}`
			if err := yaml.Unmarshal([]byte(strings.ReplaceAll(wanted, "\t", " ")), &want); err != nil {
				t.Fatal(err)
			}
			published, err := Resource(test.object)
			if err != nil {
				t.Fatal(err)
			}
			content, err := YAML(published)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]any{}
			if err := yaml.Unmarshal(content, &got); err != nil {
				t.Fatal(err)
			}
			if difference := cmp.Diff(want, got); difference != "" {
				t.Errorf("(-want +got):\n%s", difference)
			}
		})
	}
}

func TestOtherKindsAreNotPublished(t *testing.T) {
	t.Parallel()
	if published, err := Resource(&corev1.Secret{}); err == nil {
		t.Errorf("%v, want an error", published)
	}
}

func TestDeploymentHasNoValuesOfItsEnvironment(t *testing.T) {
	t.Parallel()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "warren-system", Name: "manager", Annotations: map[string]string{"note": "hidden"},
		Labels: map[string]string{"app.kubernetes.io/version": "v0.1.0", "team": "hidden"},
	}}
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "manager", Image: "warren", Args: []string{"--leader-elect", "--proxy=http://hidden:hidden@proxy"},
		Env: []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "hidden"}},
	}}
	content, err := YAML(DeploymentOf(deployment))
	if err != nil {
		t.Fatal(err)
	}
	want := `containers:
- args:
  - --leader-elect
  - --proxy=http://[redacted]@proxy
  env:
  - HTTPS_PROXY
  image: warren
  name: manager
  resources: {}
name: manager
namespace: warren-system
readyReplicas: 0
replicas: 1
version: v0.1.0
`
	if difference := cmp.Diff(want, string(content)); difference != "" {
		t.Errorf("(-want +got):\n%s", difference)
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	at := func(second int64) metav1.MicroTime { return metav1.NewMicroTime(time.Unix(second, 0)) }
	regarding := func(apiVersion, kind string) corev1.ObjectReference {
		return corev1.ObjectReference{APIVersion: apiVersion, Kind: kind, Name: "a"}
	}
	events := []eventsv1.Event{
		{Regarding: regarding("apps/v1", "Deployment"), EventTime: at(3), Reason: "ScalingReplicaSet"},
		{
			Regarding: regarding("messaging.warren.dev/v1alpha1", "ConsumerQueue"), EventTime: at(1), Reason: "Retained",
			Series: &eventsv1.EventSeries{Count: 4, LastObservedTime: at(2)},
		},
		{Regarding: regarding("v1", "Secret"), EventTime: at(1), Reason: "Hidden"},
	}
	queue := Event{Time: metav1.NewTime(time.Unix(2, 0)), Reason: "Retained", Object: "ConsumerQueue a", Count: 4}
	deployment := Event{Time: metav1.NewTime(time.Unix(3, 0)), Reason: "ScalingReplicaSet", Object: "Deployment a", Count: 1}
	if difference := cmp.Diff([]Event{queue}, Events(events, false)); difference != "" {
		t.Errorf("namespace of a tenant (-want +got):\n%s", difference)
	}
	if difference := cmp.Diff([]Event{queue, deployment}, Events(events, true)); difference != "" {
		t.Errorf("namespace of Warren (-want +got):\n%s", difference)
	}
}
