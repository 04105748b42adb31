package ui

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/jobs"
	"github.com/warren-mq/warren/internal/deadletterapi/listing"
)

// queuesPage is the first view: the queues with dead letters.
type queuesPage struct {
	Namespace string // empty for all
	// Full have dead letters, the most first, or running jobs. Empty have none, and Uncounted were not counted.
	Full, Empty, Uncounted []queueRow
	Total                  int64
	// Oldest is the time of the oldest count; zero without a count.
	Oldest time.Time
}

// queueRow is a dead-letter queue.
type queueRow struct {
	Namespace, Name, Queue string
	Messages               int64
	Counted                time.Time
	// Trouble is why the ConsumerQueue is not Ready; empty if it is.
	Trouble string
	// Going are the Redrives and Purges that have not ended.
	Going []jobs.Job
}

func (s *Server) queues(w http.ResponseWriter, r *http.Request) error {
	namespace := r.PathValue("namespace")
	list := &v1alpha1.ConsumerQueueList{}
	if err := s.Kube.List(r.Context(), list, client.InNamespace(namespace)); err != nil {
		return err
	}
	all, err := s.listJobs(r.Context(), namespace)
	if err != nil && !apierrors.IsForbidden(err) { // permission to list these is optional
		return err
	}
	going := map[client.ObjectKey][]jobs.Job{}
	for _, each := range all {
		if !each.Ended() && !each.DryRun {
			of := client.ObjectKey{Namespace: each.Namespace, Name: each.ConsumerQueue}
			going[of] = append(going[of], each)
		}
	}
	if namespace != "" && len(list.Items) == 0 {
		// A user without permission to read namespaces sees an empty page.
		err := s.Kube.Get(r.Context(), client.ObjectKey{Name: namespace}, &corev1.Namespace{})
		if apierrors.IsNotFound(err) {
			return &problem{http.StatusNotFound, fmt.Sprintf("Namespace %q does not exist.", namespace)}
		}
	}
	page := queuesPage{Namespace: namespace}
	for i := range list.Items {
		page.add(&list.Items[i], going[client.ObjectKeyFromObject(&list.Items[i])])
	}
	slices.SortStableFunc(page.Full, func(a, b queueRow) int { return cmp.Compare(b.Messages, a.Messages) })
	return render(w, "queues", page)
}

func (p *queuesPage) add(cq *v1alpha1.ConsumerQueue, going []jobs.Job) {
	queue, has := listing.QueueOf(cq)
	if !has {
		return
	}
	row := queueRow{Namespace: cq.Namespace, Name: cq.Name, Queue: queue.Queue, Trouble: troubleOf(cq), Going: going}
	if queue.Messages == nil {
		p.Uncounted = append(p.Uncounted, row)
		return
	}
	row.Messages, row.Counted = *queue.Messages, queue.AsOf.Time
	p.Total += row.Messages
	if p.Oldest.IsZero() || row.Counted.Before(p.Oldest) {
		p.Oldest = row.Counted
	}
	if row.Messages == 0 && len(going) == 0 {
		p.Empty = append(p.Empty, row)
		return
	}
	p.Full = append(p.Full, row)
}

// troubleOf returns why a ConsumerQueue is not Ready; empty if it is.
func troubleOf(cq *v1alpha1.ConsumerQueue) string {
	ready := meta.FindStatusCondition(cq.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		return ""
	}
	return ready.Reason + ": " + ready.Message
}
