package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/jobs"
)

// listJobs returns the Redrives and Purges of a namespace, the newest first. It leaves out a kind that the user may not list.
func (s *Server) listJobs(ctx context.Context, namespace string) ([]jobs.Job, error) {
	redrives, purges, _, err := jobs.List(ctx, s.Kube, client.InNamespace(namespace))
	if err != nil {
		return nil, err
	}
	all := jobs.All(redrives, purges)
	slices.SortStableFunc(all, func(a, b jobs.Job) int { return b.Created.Compare(a.Created) })
	return all, nil
}

const jobPath = "/namespaces/{namespace}/jobs/{kind}/{name}"

// found reads the object that a path names.
func (s *Server) found(r *http.Request) (client.Object, error) {
	object := jobs.Kind(r.PathValue("kind")).Empty()
	if object == nil {
		return nil, errNoPage
	}
	return object, s.Kube.Get(r.Context(), client.ObjectKey{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}, object)
}

// job shows the progress of a Redrive or Purge.
func (s *Server) job(w http.ResponseWriter, r *http.Request) error {
	object, err := s.found(r)
	if err != nil {
		return err
	}
	return render(w, "job", jobs.Of(object))
}

// The buttons on the page of a job that has not ended.
const (
	buttonRate    = "rate"
	buttonSuspend = "suspend"
	buttonResume  = "resume"
	buttonCancel  = "cancel"
)

// changeOf returns the change of a button to the spec of a job.
func changeOf(button, rate string) (map[string]any, error) {
	switch button {
	case buttonSuspend, buttonResume:
		return map[string]any{"suspend": button == buttonSuspend}, nil
	case buttonCancel:
		return map[string]any{"cancel": true}, nil
	case buttonRate:
		parsed, err := request{Rate: rate}.rate()
		if err == nil && parsed == nil {
			err = &problem{http.StatusBadRequest, "Messages per second: enter a number from 1, or Unlimited."}
		}
		return map[string]any{"rate": parsed}, err
	}
	return nil, &problem{http.StatusBadRequest, fmt.Sprintf("%q is not a button of this page.", button)}
}

func (s *Server) change(w http.ResponseWriter, r *http.Request) error {
	if err := r.ParseForm(); err != nil {
		return &problem{http.StatusBadRequest, "The form cannot be read: " + err.Error()}
	}
	change, err := changeOf(r.PostForm.Get("do"), r.PostForm.Get("rate"))
	if err != nil {
		return err
	}
	object, err := s.found(r)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"spec": change})
	if err != nil {
		return err
	}
	if err := s.Kube.Patch(r.Context(), object, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return err
	}
	toJob(w, r, jobs.Kind(r.PathValue("kind")), object)
	return nil
}

// toJob redirects to the page of a Redrive or Purge.
func toJob(w http.ResponseWriter, r *http.Request, of jobs.Kind, object client.Object) {
	to := path("namespaces", object.GetNamespace(), "jobs", string(of), object.GetName())
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// jobsPage lists the jobs of a namespace.
type jobsPage struct {
	Namespace string
	Jobs      []jobs.Job
}

// jobs lists the Redrives and Purges of a namespace, the newest first.
func (s *Server) jobs(w http.ResponseWriter, r *http.Request) error {
	page := jobsPage{Namespace: r.PathValue("namespace")}
	all, err := s.listJobs(r.Context(), page.Namespace)
	if err != nil {
		return err
	}
	page.Jobs = slices.DeleteFunc(all, func(each jobs.Job) bool { return each.DryRun })
	return render(w, "jobs", page)
}
