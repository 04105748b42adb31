package v1alpha1_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/test/deadline"
)

// applyNamePrefixes applies the sample policy to the namespaces with a label of this test.
func applyNamePrefixes(t *testing.T, label string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "samples", "admission", "name-prefixes.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	own := strings.NewReplacer("warren-name-prefixes", label, "example.com/warren-names", "example.com/"+label).Replace(string(text))
	for document := range strings.SplitSeq(own, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		if err := kube.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = kube.Delete(context.Background(), object) })
	}
}

// With the sample policy, a namespace can name only objects whose names begin with its own name or with a shared prefix.
func TestNamePrefixes(t *testing.T) {
	t.Parallel()
	name := namespace(t)
	applyNamePrefixes(t, name)
	space := &corev1.Namespace{}
	if err := kube.Get(t.Context(), client.ObjectKey{Name: name}, space); err != nil {
		t.Fatal(err)
	}
	before := object(t, "ConsumerQueue", "before", `{}`)
	before.SetNamespace(name)
	if err := kube.Create(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	space.Labels["example.com/"+name] = "prefixed"
	if err := kube.Update(t.Context(), space); err != nil {
		t.Fatal(err)
	}
	create := func(ctx context.Context, spec string) error {
		cq := object(t, "ConsumerQueue", "orders", strings.ReplaceAll(spec, "NS", name))
		cq.SetNamespace(name)
		return kube.Create(ctx, cq, client.DryRunAll)
	}
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, deadline.For(30*time.Second), true, func(ctx context.Context) (bool, error) {
		return create(ctx, `{}`) != nil, nil
	})
	if err != nil {
		t.Fatalf("the policy never comes into effect: %v", err)
	}
	const (
		own       = "main queue and delay tiers must begin with "
		shareable = "deadLetter.queue, deadLetter.exchange, retry.exchange and retry.returnTo must begin with "
		sources   = "exchanges of bindings must begin with "
	)
	for spec, want := range map[string]string{
		`queue: {name: NS.orders}`: "",
		`{queue: {name: NS.orders}, retry: {delayTiers: [{delay: 1s}, {delay: 2s, queueName: NS.wait}], exchange: {name: NS.again}, returnTo: {exchange: shared.back}}}`:              "",
		`{queue: {name: NS.orders}, deadLetter: {queue: {name: shared.dlq}, exchange: {name: NS.dlx}}, bindings: [{exchange: {name: shared.events}}, {exchange: {name: amq.topic}}]}`: "",
		`{}`:                           own,
		`queue: {name: orders}`:        own,
		`queue: {name: shared.orders}`: own,
		`queue: {name: NSx.orders}`:    own,
		`{queue: {name: NS.orders}, retry: {delayTiers: [{delay: 1s}, {delay: 2s, queueName: wait}]}}`:         own,
		`{queue: {name: NS.orders}, deadLetter: {queue: {name: other.dlq}}}`:                                   shareable,
		`{queue: {name: NS.orders}, deadLetter: {exchange: {name: other.dlx}}}`:                                shareable,
		`{queue: {name: NS.orders}, retry: {delayTiers: [{delay: 1s}], exchange: {name: other.again}}}`:        shareable,
		`{queue: {name: NS.orders}, retry: {returnTo: {exchange: other.back}}}`:                                shareable,
		`{queue: {name: NS.orders}, bindings: [{exchange: {name: NS.events}}, {exchange: {name: other.dlx}}]}`: sources,
	} {
		err := create(t.Context(), spec)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s is refused: %v", spec, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want+name+".")):
			t.Errorf("%s: %v, should be refused with %q", spec, err, want+name+".")
		}
	}
	annotate := client.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"annotations": {"note": "kept"}}}`))
	if err := kube.Patch(t.Context(), before, annotate); err != nil {
		t.Errorf("a ConsumerQueue that was there before cannot be annotated: %v", err)
	}
	suspend := client.RawPatch("application/merge-patch+json", []byte(`{"spec": {"suspend": true}}`))
	if err := kube.Patch(t.Context(), before, suspend, client.DryRunAll); err == nil || !strings.Contains(err.Error(), own+name+".") {
		t.Errorf("a change of its spec: %v, should be refused with %q", err, own+name+".")
	}
}
