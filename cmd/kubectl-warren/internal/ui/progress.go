package ui

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/jobs"
)

// progress sends the progress of a Redrive or Purge as server-sent events, one per change of its status, until it ends.
func (s *Server) progress(w http.ResponseWriter, r *http.Request) error {
	object, err := s.found(r)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if err := send(w, jobs.Of(object)); err != nil {
		return nil //nolint:nilerr // the browser has gone
	}
	// The browser resumes an interrupted stream with the current status.
	_ = s.follow(r.Context(), object, func(now jobs.Job) bool { return send(w, now) == nil && !now.Ended() })
	return nil
}

// follow watches a Redrive or Purge until visit returns false.
func (s *Server) follow(ctx context.Context, object client.Object, visit func(jobs.Job) bool) error {
	list := client.ObjectList(&v1alpha1.RedriveList{})
	if _, isPurge := object.(*v1alpha1.Purge); isPurge {
		list = &v1alpha1.PurgeList{}
	}
	only := client.MatchingFields{"metadata.name": object.GetName()}
	changes, err := s.Kube.Watch(ctx, list, client.InNamespace(object.GetNamespace()), only)
	if err != nil {
		return err
	}
	defer changes.Stop()
	for change := range changes.ResultChan() {
		now, known := change.Object.(client.Object)
		if !known || change.Type == watch.Deleted {
			return nil
		}
		if !visit(jobs.Of(now)) {
			return nil
		}
	}
	return ctx.Err()
}

// lineBreaks starts each line with the name of the field. A single CR also ends a line.
var lineBreaks = strings.NewReplacer("\r\n", "\ndata: ", "\r", "\ndata: ", "\n", "\ndata: ")

// send sends an event: progress, or end for the last one.
func send(w http.ResponseWriter, now jobs.Job) error {
	fragment := &bytes.Buffer{}
	if err := templates["job"].ExecuteTemplate(fragment, "progress", now); err != nil {
		return err
	}
	lines := lineBreaks.Replace(fragment.String())
	if _, err := fmt.Fprintf(w, "event: progress\ndata: %s\n\n", lines); err != nil {
		return err
	}
	if now.Ended() {
		if _, err := fmt.Fprint(w, "event: end\ndata: end\n\n"); err != nil {
			return err
		}
	}
	return http.NewResponseController(w).Flush()
}
