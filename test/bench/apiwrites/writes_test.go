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
	// sixObjects is a ConsumerQueue with a main queue, two delay tiers, an exchange, a queue and a binding for dead letters.
	sixObjects = `{retry: {delayTiers: [{delay: 30s}, {delay: 5m}]}}`
)

// kind is one kind of request, made to a fresh ConsumerQueue.
type kind struct {
	name string
	// before is what was written before, and is not measured.
	before []Write
	write  Write
}

var kinds = []kind{
	{"get", nil, get},
	{"create", nil, Create},
	{"Event", nil, CreateEvent},
	{"finalizer/patch", nil, patchFinalizer},
	{"finalizer/update", nil, updateFinalizer},
	{"finalizer/apply", nil, applyFinalizer},
	{"finalizer and intents/patch", nil, PatchFinalizerAndIntents},
	{"status/apply", []Write{patchFinalizer}, applyStatus},
	{"status/patch", []Write{patchFinalizer}, patchStatus},
	{"status/update", []Write{patchFinalizer}, updateStatus},
	{"status again/apply", []Write{patchFinalizer, applyIntents}, applyStatus},
	{"status again/patch", []Write{patchFinalizer, patchIntents}, patchStatus},
	{"status again/update", []Write{patchFinalizer, updateIntents}, updateStatus},
	{"creation/patch, apply, apply", nil, InTurn(patchFinalizer, applyIntents, applyStatus)},
	{"creation/patch, update, update", nil, InTurn(patchFinalizer, updateIntents, updateStatus)},
	{"creation/patch with intents, apply", nil, InTurn(PatchFinalizerAndIntents, applyStatus)},
	{"creation/patch with intents, update", nil, InTurn(PatchFinalizerAndIntents, updateStatus)},
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
		before = slices.Insert(slices.Clone(before), 0, Write(Create))
	}
	s.all(b, queues, InTurn(before...))
	began, used, stored := time.Now(), s.apiServer.cpu(b), s.etcd.cpu(b)
	s.all(b, queues, of.write)
	return cost{milliseconds(s.apiServer.cpu(b) - used), milliseconds(s.etcd.cpu(b) - stored), milliseconds(time.Since(began))}
}

// all writes to each ConsumerQueue, some at a time.
func (s *server) all(b *testing.B, queues []*v1alpha1.ConsumerQueue, one Write) {
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

func get(ctx context.Context, api client.Client, cq *v1alpha1.ConsumerQueue) error {
	return api.Get(ctx, client.ObjectKeyFromObject(cq), cq)
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

// A status in which the objects are yet to be declared, and one in which all is in sync, by each kind of request.
var (
	applyIntents, applyStatus   = applying(""), applying(inSync)
	patchIntents, patchStatus   = patching(""), patching(inSync)
	updateIntents, updateStatus = updating(""), UpdateStatus
)

func applying(hash string) Write {
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

func patching(hash string) Write {
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

func updating(hash string) Write {
	return func(ctx context.Context, api client.Client, cq *v1alpha1.ConsumerQueue) error {
		return writeStatus(ctx, api, cq, hash)
	}
}
