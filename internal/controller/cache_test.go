package controller

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/controller/trigger"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// With --watch-namespaces the manager reads only these namespaces.
func TestCacheOptionsNamespaces(t *testing.T) {
	t.Parallel()
	for list, want := range map[string][]string{
		"":                  nil,
		"shop":              {"shop"},
		"shop,bank":         {"bank", "shop"},
		"shop , bank ,shop": {"bank", "shop"},
	} {
		options, err := CacheOptions(list)
		if err != nil {
			t.Errorf("%q: %v", list, err)
		}
		topologytest.Equal(t, list, want, slices.Sorted(maps.Keys(options.DefaultNamespaces)))
	}
}

func TestCacheOptionsRefusesInvalidNamespaces(t *testing.T) {
	t.Parallel()
	const form = `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an ` +
		`alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`
	for list, name := range map[string]string{
		" ": "", ",": "", "shop,": "", "shop,,bank": "", "Shop": "Shop", "shop bank": "shop bank", "shop,*": "*", "$(NAMESPACES)": "$(NAMESPACES)",
	} {
		_, err := CacheOptions(list)
		if err == nil {
			t.Errorf("%q is accepted", list)
			continue
		}
		topologytest.Equal(t, list, `--watch-namespaces is "`+list+`", but "`+name+`" is not the name of a namespace (`+form+
			"): separate names with commas, or leave the flag out to watch all namespaces", err.Error())
	}
}

// The cache drops the annotations of a Secret, because kubectl apply copies the Secret's data into one of them.
func TestCacheKeepsOnlyTheNameOfASecret(t *testing.T) {
	t.Parallel()
	options, err := CacheOptions("")
	if err != nil {
		t.Fatal(err)
	}
	secret := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "rabbitmq", UID: "1", ResourceVersion: "2",
		Annotations:   map[string]string{"kubectl.kubernetes.io/last-applied-configuration": `{"stringData":{"password":"hunter2"}}`},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
	}}
	kept, err := options.DefaultTransform(secret)
	if err != nil {
		t.Fatal(err)
	}
	topologytest.Equal[any](t, "Secret", &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "rabbitmq", UID: "1", ResourceVersion: "2"},
	}, kept)

	cq := controllertest.ConsumerQueue(t, "{}")
	cq.Annotations = map[string]string{v1alpha1.RequestedAtAnnotation: "now"}
	cq.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	whole := cq.DeepCopy()
	whole.ManagedFields = nil
	kept, err = options.DefaultTransform(cq)
	if err != nil {
		t.Fatal(err)
	}
	topologytest.Equal[any](t, "ConsumerQueue", whole, kept)
}

// Users choose the annotations and labels of their objects. The cache keeps few of them, so that they cannot fill the memory.
func TestCacheLimitsMetadata(t *testing.T) {
	t.Parallel()
	options, err := CacheOptions("")
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]string{
		"messaging.warren.dev/requested-at": "now", "messaging.warren.dev/completed-at": "2026-01-01T00:00:00Z",
		"messaging.warren.dev/approve-recreation": "sha256:1", "messaging.warren.dev/abort-recreation": "a1b2",
	}
	const backup = "velero.io/exclude-from-backup"
	for name, test := range map[string]struct{ annotations, labels, wantAnnotations, wantLabels map[string]string }{
		"annotations that Warren reads": {annotations: read, wantAnnotations: read},
		"other annotations": {annotations: map[string]string{
			"example.com/note": "x", "messaging.warren.dev/note": "x", corev1.LastAppliedConfigAnnotation: "{}",
		}},
		"a long value": {
			annotations:     map[string]string{v1alpha1.RequestedAtAnnotation: strings.Repeat("x", 1025)},
			wantAnnotations: map[string]string{v1alpha1.RequestedAtAnnotation: strings.Repeat("x", 1021) + "…"},
		},
		"labels of 2 KiB": {
			labels:     map[string]string{"team": strings.Repeat("x", 2044)},
			wantLabels: map[string]string{"team": strings.Repeat("x", 2044)},
		},
		"labels of more than 2 KiB": {labels: map[string]string{"team": strings.Repeat("x", 2045)}},
		"labels of more than 2 KiB with the label of Velero": {
			labels:     map[string]string{"team": strings.Repeat("x", 2045), backup: "false"},
			wantLabels: map[string]string{backup: "false"},
		},
	} {
		for _, object := range []client.Object{
			&v1alpha1.ConsumerQueue{}, &v1alpha1.BrokerConnection{}, &v1alpha1.Redrive{}, &v1alpha1.Purge{},
		} {
			what := fmt.Sprintf("%s of a %T: ", name, object)
			object.SetAnnotations(maps.Clone(test.annotations))
			object.SetLabels(maps.Clone(test.labels))
			requested := trigger.RequestedAt(object)
			kept, err := options.DefaultTransform(object)
			if err != nil {
				t.Fatal(err)
			}
			topologytest.Equal(t, what+"annotations", test.wantAnnotations, kept.(client.Object).GetAnnotations())
			topologytest.Equal(t, what+"labels", test.wantLabels, kept.(client.Object).GetLabels())
			topologytest.Equal(t, what+"request", requested, trigger.RequestedAt(kept.(client.Object)))
		}
	}
}

// The cache merges the annotation of intents into the status. The managed fields decide whether the annotation counts, and the cache drops
// them afterwards.
func TestCacheMergesIntents(t *testing.T) {
	t.Parallel()
	options, err := CacheOptions("")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		managed []metav1.ManagedFieldsEntry
		want    int
	}{
		"the status was never written":     {managed: []metav1.ManagedFieldsEntry{{Manager: "manager"}}, want: 1},
		"the status was written, and lost": {managed: []metav1.ManagedFieldsEntry{{Manager: "kubectl", Subresource: "status"}}},
	} {
		cq := controllertest.NewConsumerQueue(t, "{}")
		here := ownership.Location{Cluster: vhost.Cluster{Name: "rabbit"}, VHost: "/"}
		entries := []v1alpha1.TopologyEntry{{Kind: v1alpha1.KindQueue, Name: "orders", Role: v1alpha1.RoleMain, Origin: v1alpha1.OriginDeclared}}
		topologytest.Equal(t, name+": annotated", true, ownership.AnnotateIntents(cq, here, entries))
		cq.ManagedFields = test.managed
		kept, err := options.DefaultTransform(cq)
		if err != nil {
			t.Fatal(err)
		}
		topologytest.Equal(t, name+": topology", test.want, len(kept.(*v1alpha1.ConsumerQueue).Status.Topology))
		topologytest.Equal(t, name+": annotations", 0, len(kept.(*v1alpha1.ConsumerQueue).Annotations))
	}
}
