package apiwrites

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/warren-mq/warren/api/v1alpha1"
	ac "github.com/warren-mq/warren/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/controller/ssa"
)

const (
	rounds    = 5  // the kinds take turns, so that what else the machine does burdens all of them
	perRound  = 40 // writes of a kind in a round
	atOnce    = 4  // writes under way
	namespace = "default"
	owner     = client.FieldOwner("warren")
	// sixObjects is a ConsumerQueue with a main queue, two delay tiers, an exchange, a queue and a binding for dead letters.
	sixObjects = `{retry: {delayTiers: [{delay: 30s}, {delay: 5m}]}}`
)

// kind is one kind of request, made to a fresh ConsumerQueue.
type kind struct {
	name string
	// before is what was written before, and is not measured.
	before []write
	write  write
}

// write changes a ConsumerQueue as the API server returned it last.
type write func(ctx context.Context, api client.Client, cq *v1alpha1.ConsumerQueue) error

var kinds = []kind{
	{"get", nil, get},
	{"create", nil, create},
	{"Event", nil, createEvent},
	{"finalizer/patch", nil, patchFinalizer},
	{"finalizer/update", nil, updateFinalizer},
	{"finalizer/apply", nil, applyFinalizer},
	{"finalizer and intents/patch", nil, patchFinalizerAndIntents},
	{"status/apply", []write{patchFinalizer}, applyStatus},
	{"status/patch", []write{patchFinalizer}, patchStatus},
	{"status/update", []write{patchFinalizer}, updateStatus},
	{"status again/apply", []write{patchFinalizer, applyIntents}, applyStatus},
	{"status again/patch", []write{patchFinalizer, patchIntents}, patchStatus},
	{"status again/update", []write{patchFinalizer, updateIntents}, updateStatus},
	{"creation/patch, apply, apply", nil, inTurn(patchFinalizer, applyIntents, applyStatus)},
	{"creation/patch, update, update", nil, inTurn(patchFinalizer, updateIntents, updateStatus)},
	{"creation/patch with intents, apply", nil, inTurn(patchFinalizerAndIntents, applyStatus)},
	{"creation/patch with intents, update", nil, inTurn(patchFinalizerAndIntents, updateStatus)},
}

// BenchmarkWrites prints, for each kind of request, milliseconds of CPU of the API server and of etcd, and of wall time.
func BenchmarkWrites(b *testing.B) {
	server := startServer(b)
	for b.Loop() {
		costs := map[string]cost{}
		for round := range rounds {
			for _, one := range kinds {
				costs[one.name] = costs[one.name].plus(server.measure(b, one, round))
			}
		}
		table := &strings.Builder{}
		for _, one := range kinds {
			fmt.Fprintf(table, "\n%-38s %s", one.name, costs[one.name].per(rounds*perRound))
			b.ReportMetric(costs[one.name].per(rounds*perRound).server, "ms/"+strings.NewReplacer(" ", "-", ",", "").Replace(one.name))
		}
		b.Log(table)
		server.clear(b)
	}
}

// measure makes the requests of one kind, each to a ConsumerQueue of its own.
func (s *server) measure(b *testing.B, of kind, round int) cost {
	b.Helper()
	queues := make([]*v1alpha1.ConsumerQueue, perRound)
	for i := range queues {
		name := fmt.Sprintf("q-%d-%d-%d", slices.IndexFunc(kinds, func(k kind) bool { return k.name == of.name }), round, i)
		queues[i] = controllertest.Named(b, namespace, name, sixObjects)
		queues[i].Generation = 0
	}
	before := of.before
	if of.name != "create" {
		before = slices.Insert(slices.Clone(before), 0, write(create))
	}
	s.all(b, queues, inTurn(before...))
	began, used, stored := time.Now(), s.apiServer.cpu(b), s.etcd.cpu(b)
	s.all(b, queues, of.write)
	return cost{milliseconds(s.apiServer.cpu(b) - used), milliseconds(s.etcd.cpu(b) - stored), milliseconds(time.Since(began))}
}

// all writes to each ConsumerQueue, some at a time.
func (s *server) all(b *testing.B, queues []*v1alpha1.ConsumerQueue, one write) {
	b.Helper()
	next := make(chan *v1alpha1.ConsumerQueue)
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for cq := range next {
				if err := one(b.Context(), s.api, cq); err != nil {
					b.Errorf("write %s: %v", cq.Name, err)
				}
			}
		})
	}
	for _, cq := range queues {
		next <- cq
	}
	close(next)
	workers.Wait()
	if b.Failed() {
		b.FailNow()
	}
}

// inTurn makes several writes, one after the other.
func inTurn(writes ...write) write {
	return func(ctx context.Context, api client.Client, cq *v1alpha1.ConsumerQueue) error {
		for _, one := range writes {
			if err := one(ctx, api, cq); err != nil {
				return err
			}
		}
		return nil
	}
}

func create(ctx context.Context, api client.Client, cq *v1alpha1.ConsumerQueue) error {
	return api.Create(ctx, cq)
}

func get(ctx context.Context, api client.Client, cq *v1alpha1.ConsumerQueue) error {
	return api.Get(ctx, client.ObjectKeyFromObject(cq), cq)
}

func createEvent(ctx context.Context, api client.Client, cq *v1alpha1.ConsumerQueue) error {
	return api.Create(ctx, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: cq.Namespace, Name: cq.Name}, EventTime: metav1.NowMicro(),
		ReportingController: "warren", ReportingInstance: "warren", Action: "Declare", Reason: "Declared", Type: corev1.EventTypeNormal,
		Note:      "declared 1 exchange, 4 queues and 1 binding",
		Regarding: corev1.ObjectReference{Kind: "ConsumerQueue", Namespace: cq.Namespace, Name: cq.Name, UID: cq.UID},
	})
}

func patchFinalizer(ctx context.Context, api client.Client, cq *v1alpha1.ConsumerQueue) error {
	before := cq.DeepCopy()
	controllerutil.AddFinalizer(cq, v1alpha1.TopologyFinalizer)
	return api.Patch(ctx, cq, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

func updateFinalizer(ctx context.Context, api client.Client, cq *v1alpha1.ConsumerQueue) error {
	controllerutil.AddFinalizer(cq, v1alpha1.TopologyFinalizer)
	return api.Update(ctx, cq, owner)
}

func applyFinalizer(ctx context.Context, api client.Client, cq *v1alpha1.ConsumerQueue) error {
	applied := ac.ConsumerQueue(cq.Name, cq.Namespace).WithResourceVersion(cq.ResourceVersion).WithFinalizers(v1alpha1.TopologyFinalizer)
	return api.Apply(ctx, applied, owner, client.ForceOwnership)
}

// patchFinalizerAndIntents writes an annotation, too, with what is about to be declared.
func patchFinalizerAndIntents(ctx context.Context, api client.Client, cq *v1alpha1.ConsumerQueue) error {
	entries := statusOf(cq, "").Topology
	for i := range entries {
		entries[i].Origin, entries[i].State = "", ""
	}
	text, err := json.Marshal(map[string]any{"uid": cq.UID, "cluster": map[string]string{"name": "rabbit"}, "vhost": "/", "objects": entries})
	if err != nil {
		return err
	}
	before := cq.DeepCopy()
	controllerutil.AddFinalizer(cq, v1alpha1.TopologyFinalizer)
	metav1.SetMetaDataAnnotation(&cq.ObjectMeta, "messaging.warren.dev/intents", string(text))
	return api.Patch(ctx, cq, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// A status in which the objects are yet to be declared, and one in which all is in sync, by each kind of request.
var (
	applyIntents, applyStatus   = applying(""), applying("v1:06967e3c5605e8ec")
	patchIntents, patchStatus   = patching(""), patching("v1:06967e3c5605e8ec")
	updateIntents, updateStatus = updating(""), updating("v1:06967e3c5605e8ec")
)

func applying(hash string) write {
	return func(ctx context.Context, api client.Client, cq *v1alpha1.ConsumerQueue) error {
		configuration := &ac.ConsumerQueueStatusApplyConfiguration{}
		if err := ssa.Convert(statusOf(cq, hash), configuration); err != nil {
			return err
		}
		applied := ac.ConsumerQueue(cq.Name, cq.Namespace).WithResourceVersion(cq.ResourceVersion).WithStatus(configuration)
		body := &client.SubResourceApplyOptions{SubResourceBody: ssa.YAMLSafe{ApplyConfiguration: applied}}
		if err := api.Status().Apply(ctx, applied, body, owner, client.ForceOwnership); err != nil {
			return err
		}
		cq.ResourceVersion = *applied.ResourceVersion
		return nil
	}
}

func patching(hash string) write {
	return func(ctx context.Context, api client.Client, cq *v1alpha1.ConsumerQueue) error {
		body, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"resourceVersion": cq.ResourceVersion}, "status": statusOf(cq, hash),
		})
		if err != nil {
			return err
		}
		return api.Status().Patch(ctx, cq, client.RawPatch(types.MergePatchType, body), owner)
	}
}

func updating(hash string) write {
	return func(ctx context.Context, api client.Client, cq *v1alpha1.ConsumerQueue) error {
		cq.Status = statusOf(cq, hash)
		cq.ManagedFields = nil // as the manager's cache has it
		return api.Status().Update(ctx, cq, owner)
	}
}
