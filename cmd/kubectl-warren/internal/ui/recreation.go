package ui

import (
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/recreation"
)

// recreationPage shows the recreation of a queue, planned, under way or over.
type recreationPage struct {
	Namespace, Name string
	// RecreationStatus has no phase if no recreation is planned.
	v1alpha1.RecreationStatus

	// Message is the message of the condition RecreationRequired.
	Message string
	// PlanHash is the hash to approve; empty if no approval is needed.
	PlanHash string
}

// MayAbort reports whether the recreation can be aborted, so that the old queue stays.
func (p recreationPage) MayAbort() bool { return p.ID != "" && p.MayBeAborted() }

// Max returns how many messages the full progress bar stands for; zero if the phase moves none.
func (p recreationPage) Max() int64 {
	if p.Phase == v1alpha1.RecreationEmptying || p.Phase == v1alpha1.RecreationGivingBack {
		return p.Moved + p.Remaining
	}
	return 0
}

// recreation shows the recreation of a queue of the ConsumerQueue.
func (s *Server) recreation(w http.ResponseWriter, r *http.Request) error {
	cq, err := s.consumerQueue(r)
	if err != nil {
		return err
	}
	page := recreationPage{Namespace: cq.Namespace, Name: cq.Name}
	if now := cq.Status.Recreation; now != nil {
		page.RecreationStatus = *now
	}
	if required := meta.FindStatusCondition(cq.Status.Conditions, v1alpha1.ConditionRecreationRequired); required != nil {
		page.Message = required.Message
	}
	if recreation.NeedsApproval(cq) {
		page.PlanHash = cq.Status.PlanHash
	}
	return render(w, "recreation", page)
}

// The buttons of the page.
const (
	buttonApprove = "approve"
	buttonAbort   = "abort"
)

// changeRecreation approves or aborts the recreation that the page showed.
func (s *Server) changeRecreation(w http.ResponseWriter, r *http.Request) error {
	if err := r.ParseForm(); err != nil {
		return &problem{http.StatusBadRequest, "The form cannot be read: " + err.Error()}
	}
	cq, err := s.consumerQueue(r)
	if err != nil {
		return err
	}
	before := cq.DeepCopy()
	switch button := r.PostForm.Get("do"); button {
	case buttonApprove:
		_, err = recreation.Approve(cq, r.PostForm.Get("plan"))
	case buttonAbort:
		_, err = recreation.Abort(cq, r.PostForm.Get("id"))
	default:
		return &problem{http.StatusBadRequest, fmt.Sprintf("%q is not a button of this page.", button)}
	}
	if err != nil {
		return &problem{http.StatusConflict, err.Error()}
	}
	if err := s.Kube.Patch(r.Context(), cq, client.MergeFrom(before)); err != nil {
		return err
	}
	http.Redirect(w, r, path("namespaces", cq.Namespace, "queues", cq.Name, "recreation"), http.StatusSeeOther)
	return nil
}

// consumerQueue reads the ConsumerQueue that a path names.
func (s *Server) consumerQueue(r *http.Request) (*v1alpha1.ConsumerQueue, error) {
	cq := &v1alpha1.ConsumerQueue{}
	err := s.Kube.Get(r.Context(), client.ObjectKey{Namespace: r.PathValue("namespace"), Name: r.PathValue("queue")}, cq)
	return cq, err
}
