package deadletterjob

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

func (w *redriveWorld) finish() *v1alpha1.Redrive {
	w.T.Helper()
	w.begin()
	w.Mover.End <- nil
	for w.get().Status.CompletionTime == nil {
		w.ReconcileWhenEnqueued()
	}
	return w.get()
}

// createAgain deletes the Redrive and creates another object without a status.
func (w *redriveWorld) createAgain(redrive *v1alpha1.Redrive) {
	w.T.Helper()
	if err := w.API.Delete(w.T.Context(), w.get()); err != nil {
		w.T.Fatal(err)
	}
	w.Reconcile()
	redrive.UID, redrive.ResourceVersion = "another-uid", ""
	redrive.Status = v1alpha1.RedriveStatus{}
	if err := w.API.Create(w.T.Context(), redrive); err != nil {
		w.T.Fatal(err)
	}
}

func (w *redriveWorld) consumerQueue() *v1alpha1.ConsumerQueue {
	w.T.Helper()
	cq := &v1alpha1.ConsumerQueue{}
	if err := w.API.Get(w.T.Context(), client.ObjectKey{Namespace: "shop", Name: "orders"}, cq); err != nil {
		w.T.Fatal(err)
	}
	return cq
}

func TestAFinishedRedriveIsRecorded(t *testing.T) {
	t.Parallel()
	w := newRedriveWorld(t, controllertest.InSync(t, `{}`), all)
	redrive := w.finish()
	topologytest.Equal(t, "label of Velero", "true", redrive.Labels["velero.io/exclude-from-backup"])
	topologytest.Equal(t, "annotation", redrive.Status.CompletionTime.UTC().Format(time.RFC3339),
		redrive.Annotations["messaging.warren.dev/completed-at"])
	finished := w.consumerQueue().Status.FinishedJobs
	topologytest.Equal(t, "finished jobs", 1, len(finished))
	topologytest.Equal(t, "kind and name", []string{"Redrive", "again"}, []string{finished[0].Kind, finished[0].Name})
	topologytest.Equal(t, "completionTime", redrive.Status.CompletionTime.UTC(), finished[0].CompletionTime.UTC())

	w.Restart()
	version := w.consumerQueue().ResourceVersion
	w.reconcile()
	topologytest.Equal(t, "version of the ConsumerQueue after a restart", version, w.consumerQueue().ResourceVersion)
}

// A manager may be killed between the write of the status and the write of the annotation.
func TestTheNextManagerRecordsAFinishedRedrive(t *testing.T) {
	t.Parallel()
	w := newRedriveWorld(t, controllertest.InSync(t, `{}`), `{consumerQueueRef: {name: orders}, ttlSecondsAfterFinished: 0}`)
	redrive := w.get()
	redrive.Status.CompletionTime = new(metav1.NewTime(time.Now().Add(-time.Minute)))
	if err := w.API.Status().Update(t.Context(), redrive); err != nil {
		t.Fatal(err)
	}
	w.Reconcile()
	topologytest.Equal(t, "finished jobs", 1, len(w.consumerQueue().Status.FinishedJobs))
}

// finishedWithoutRecord returns a world with a ConsumerQueue and a Redrive that has finished before the manager started.
func finishedWithoutRecord(t *testing.T, cq *v1alpha1.ConsumerQueue) *redriveWorld {
	t.Helper()
	w := newRedriveWorld(t, cq, all)
	redrive := w.get()
	redrive.Status.CompletionTime, redrive.Status.ObservedGeneration = new(metav1.Now()), 1
	if err := w.API.Status().Update(t.Context(), redrive); err != nil {
		t.Fatal(err)
	}
	return w
}

// A Redrive with the annotation is not recorded in the ConsumerQueue later.
func TestTheConsumerQueueRecordsAFinishedRedriveBeforeTheAnnotation(t *testing.T) {
	t.Parallel()
	w := finishedWithoutRecord(t, controllertest.InSync(t, `{}`))
	w.Reconciler.Client = refusing{w.API}
	if _, err := w.Reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: again}); err == nil {
		t.Error("Reconcile hides that the status of the ConsumerQueue cannot be written")
	}
	topologytest.Equal(t, "annotations", nil, w.get().Annotations)
}

// Without an inventory, a first status would make the intents of the ConsumerQueue invalid.
func TestAConsumerQueueWithoutAStatusRecordsNoRedrive(t *testing.T) {
	t.Parallel()
	w := finishedWithoutRecord(t, controllertest.NewConsumerQueue(t, `{}`))
	before := w.consumerQueue().Status
	w.Reconcile()
	topologytest.Equal(t, "status", before, w.consumerQueue().Status)
	topologytest.Equal(t, "annotations", nil, w.get().Annotations)
}

// The cache may still return a finished Redrive when the API server already has a new one of the same name.
func TestANewRedriveDoesNotGetTheAnnotationOfADeletedOne(t *testing.T) {
	t.Parallel()
	w := finishedWithoutRecord(t, controllertest.InSync(t, `{}`))
	w.Reconciler.Client = stale[*v1alpha1.Redrive]{w.API, w.get()}
	if err := w.API.Delete(t.Context(), w.get()); err != nil {
		t.Fatal(err)
	}
	if err := w.API.Create(t.Context(), redriveOf("again", 2, nil)); err != nil {
		t.Fatal(err)
	}
	w.Reconcile()
	topologytest.Equal(t, "annotations", nil, w.get().Annotations)
}

// The cache may lack a new value of ttlSecondsAfterFinished.
func TestARedriveIsNotDeletedAfterAFormerTTL(t *testing.T) {
	t.Parallel()
	w := finishedWithoutRecord(t, controllertest.InSync(t, `{}`))
	redrive := w.reconcile()
	redrive.Spec.TTLSecondsAfterFinished = new(int32(0))
	w.Reconciler.Client = stale[*v1alpha1.Redrive]{w.API, redrive.DeepCopy()}
	redrive.Spec.TTLSecondsAfterFinished = new(int32(3600))
	if err := w.API.Update(t.Context(), redrive); err != nil {
		t.Fatal(err)
	}
	w.Reconcile()
	topologytest.Equal(t, "ttlSecondsAfterFinished", 3600, *w.get().Spec.TTLSecondsAfterFinished)
}

func TestARecreatedRedrive(t *testing.T) {
	t.Parallel()
	const rejected = `{consumerQueueRef: {name: orders}, selector: {reasons: [Rejected]}, rate: 50}`
	for name, test := range map[string]struct {
		first    string
		name     string // empty for again
		second   string
		restored bool // it has its annotations, and the ConsumerQueue lost its record
		want     string
	}{
		"a backup restores it":                            {first: rejected, second: rejected, restored: true, want: "Ready=True AlreadyFinished Complete=True AlreadyFinished "},
		"a backup restores it, and its spec differs":      {first: rejected, second: all, restored: true, want: "Ready=True AlreadyFinished Complete=True AlreadyFinished "},
		"a backup restores a dry run":                     {first: `{` + rejected[1:len(rejected)-1] + `, dryRun: true}`, second: `{` + rejected[1:len(rejected)-1] + `, dryRun: true}`, restored: true, want: "Ready=True AlreadyFinished Complete=True AlreadyFinished "},
		"a backup restores it under another name":         {first: rejected, second: rejected, name: "copy", restored: true, want: "Ready=True AlreadyFinished Complete=True AlreadyFinished "},
		"the same name and spec":                          {first: rejected, second: rejected, want: "Ready=True AlreadyFinished Complete=True AlreadyFinished "},
		"the same name and spec, suspended":               {first: rejected, second: `{` + rejected[1:len(rejected)-1] + `, suspend: true}`, want: "Ready=True AlreadyFinished Complete=True AlreadyFinished "},
		"the same name, and only mutable fields differ":   {first: rejected, second: `{consumerQueueRef: {name: orders}, selector: {reasons: [Rejected]}, rate: 60, ttlSecondsAfterFinished: 5}`, want: "Ready=True AlreadyFinished Complete=True AlreadyFinished "},
		"the same name and spec, and another requestedBy": {first: rejected, second: `{` + rejected[1:len(rejected)-1] + `, requestedBy: bob}`, want: "Ready=True AlreadyFinished Complete=True AlreadyFinished "},
		"another name":                                    {first: rejected, second: rejected, name: "copy", want: "Ready=Unknown Moving Reconciling=True Moving "},
		"another selector":                                {first: rejected, second: all, want: "Ready=Unknown Moving Reconciling=True Moving "},
		"another spec.reason":                             {first: rejected, second: `{` + rejected[1:len(rejected)-1] + `, reason: once more}`, want: "Ready=Unknown Moving Reconciling=True Moving "},
		"a dry run":                                       {first: `{consumerQueueRef: {name: orders}, dryRun: true}`, second: `{consumerQueueRef: {name: orders}, dryRun: true}`, want: "Ready=Unknown Moving Reconciling=True Moving "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRedriveWorld(t, controllertest.InSync(t, `{}`), test.first)
			finished := w.finish()
			second := redriveOf("again", 1, nil)
			if err := yaml.UnmarshalStrict([]byte(test.second), &second.Spec); err != nil {
				t.Fatal(err)
			}
			if test.restored {
				second.Annotations, second.Labels = finished.Annotations, finished.Labels
				cq := w.consumerQueue()
				cq.Status.FinishedJobs = nil
				if err := w.API.Status().Update(t.Context(), cq); err != nil {
					t.Fatal(err)
				}
			}
			key := again
			if test.name != "" {
				second.Name, key.Name = test.name, test.name
			}
			w.createAgain(second)
			w.HoldMoves()
			w.ReconcileAt(key)
			if err := w.API.Get(t.Context(), key, second); err != nil {
				t.Fatal(err)
			}
			topologytest.Equal(t, "conditions", test.want, readyOf(second))
			topologytest.Equal(t, "has finished", test.want == "Ready=True AlreadyFinished Complete=True AlreadyFinished ", second.Status.CompletionTime != nil)
		})
	}
}

func TestARedriveReportsWhyItDidNothing(t *testing.T) {
	t.Parallel()
	w := newRedriveWorld(t, controllertest.InSync(t, `{}`), all)
	completed := w.finish().Status.CompletionTime.UTC().Format(time.RFC3339)
	w.createAgain(redriveOf("again", 1, func(r *v1alpha1.Redrive) { r.Spec.ConsumerQueueRef.Name = "orders" }))
	redrive := w.reconcile()
	topologytest.Equal(t, "message", `Warren did nothing, because Redrive "again" with the same spec finished at `+completed+
		`. To run it again, create it under another name`, redrive.Status.Conditions[0].Message)
	topologytest.Equal(t, "moved", true, redrive.Status.Moved == nil)
	topologytest.Equal(t, "finished jobs", 1, len(w.consumerQueue().Status.FinishedJobs))

	restored := redriveOf("again", 1, func(r *v1alpha1.Redrive) {
		r.Spec.ConsumerQueueRef.Name = "gone"
		r.Annotations = map[string]string{"messaging.warren.dev/completed-at": completed}
	})
	w.createAgain(restored)
	topologytest.Equal(t, "message of a restored Redrive", `Warren did nothing, because the annotation messaging.warren.dev/completed-at says that this `+
		`Redrive finished at "`+completed+`". To run it again, create it under another name and without the annotation`,
		w.reconcile().Status.Conditions[0].Message)
}

// Argo CD creates a Redrive again each time it expires. Its record is renewed, so that newer records do not displace it.
func TestTheRecordKeepsTheLast32(t *testing.T) {
	t.Parallel()
	cq := controllertest.InSync(t, `{}`)
	w := newRedriveWorld(t, cq, all)
	w.finish()
	cq = w.consumerQueue()
	cq.Status.FinishedJobs[0].StartTime = new(cq.Status.FinishedJobs[0].CompletionTime)
	own := cq.Status.FinishedJobs[0]
	for i := range 31 {
		other := own
		other.Name = "other-" + string(rune('a'+i))
		cq.Status.FinishedJobs = append(cq.Status.FinishedJobs, other)
	}
	if err := w.API.Status().Update(t.Context(), cq); err != nil {
		t.Fatal(err)
	}
	w.Restart()
	w.createAgain(redriveOf("again", 1, func(r *v1alpha1.Redrive) { r.Spec.ConsumerQueueRef.Name = "orders" }))
	topologytest.Equal(t, "conditions", "Ready=True AlreadyFinished Complete=True AlreadyFinished ", readyOf(w.reconcile()))
	jobs := w.consumerQueue().Status.FinishedJobs
	topologytest.Equal(t, "finished jobs", 32, len(jobs))
	topologytest.Equal(t, "newest", own, jobs[31])
	w.createAgain(redriveOf("again", 1, func(r *v1alpha1.Redrive) {
		r.Spec.ConsumerQueueRef.Name, r.Spec.Cancel, r.Spec.Reason = "orders", true, "another"
	}))
	topologytest.Equal(t, "conditions of another", "Ready=True Cancelled Complete=True Cancelled ", readyOf(w.reconcile()))
	jobs = w.consumerQueue().Status.FinishedJobs
	topologytest.Equal(t, "finished jobs after one more", 32, len(jobs))
	topologytest.Equal(t, "oldest", "other-b", jobs[0].Name)
}

// The cache may lack a record that was written a moment ago.
func TestARedriveWaitsForTheRecordInTheCache(t *testing.T) {
	t.Parallel()
	w := newRedriveWorld(t, controllertest.InSync(t, `{}`), all)
	before := w.consumerQueue()
	w.finish()
	w.createAgain(redriveOf("again", 1, func(r *v1alpha1.Redrive) { r.Spec.ConsumerQueueRef.Name = "orders" }))
	w.Reconciler.Client = stale[*v1alpha1.ConsumerQueue]{w.API, before}
	topologytest.Equal(t, "conditions", "", readyOf(w.reconcile()))
	topologytest.Equal(t, "moves", 0, len(w.Mover.Begun))
}

// stale is a client whose cache has an old object of a type.
type stale[T interface {
	client.Object
	DeepCopyInto(into T)
}] struct {
	client.WithWatch

	old T
}

func (s stale[T]) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if into, ok := object.(T); ok {
		s.old.DeepCopyInto(into)
		return nil
	}
	return s.WithWatch.Get(ctx, key, object, options...)
}
