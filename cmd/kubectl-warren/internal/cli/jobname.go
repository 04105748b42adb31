package cli

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/jobs"
)

// jobsNamed returns the candidates for an argument: NAME means both kinds, redrive/NAME or purge/NAME one of them.
func jobsNamed(argument, namespace string) ([]client.Object, error) {
	resource, name, hasKind := strings.Cut(argument, "/")
	if !hasKind {
		resource, name = "", argument
	}
	resource, _, _ = strings.Cut(strings.ToLower(resource), ".") // -o name includes the group
	metadata := metav1.ObjectMeta{Namespace: namespace, Name: name}
	redrive, purge := &v1alpha1.Redrive{ObjectMeta: metadata}, &v1alpha1.Purge{ObjectMeta: metadata}
	switch {
	case name == "" || strings.Contains(name, "/"):
	case !hasKind:
		return []client.Object{redrive, purge}, nil
	case resource == "redrive" || resource == "redrives":
		return []client.Object{redrive}, nil
	case resource == "purge" || resource == "purges":
		return []client.Object{purge}, nil
	}
	return nil, usageError("%q is neither a Redrive nor a Purge: give NAME, redrive/NAME or purge/NAME", argument)
}

// job returns the job that an argument names.
func (s session) job(ctx context.Context, argument string) (jobs.Job, error) {
	named, err := jobsNamed(argument, s.namespace)
	if err != nil {
		return jobs.Job{}, err
	}
	var found []jobs.Job
	var missing error
	for _, each := range named {
		err := s.Get(ctx, client.ObjectKeyFromObject(each), each)
		switch {
		case err == nil:
			found = append(found, jobs.Of(each))
		case !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
			return jobs.Job{}, err
		case missing == nil:
			missing = err
		}
	}
	switch len(found) {
	case 0:
		return jobs.Job{}, missing
	case 1:
		return found[0], nil
	}
	return jobs.Job{}, usageError("there are a Redrive and a Purge %q: give redrive/%[1]s or purge/%[1]s", argument)
}

// jobs returns the Redrives and Purges of the namespace, or of all. It leaves out a kind that the user may not list.
func (s session) jobs(ctx context.Context, all bool) ([]jobs.Job, error) {
	redrives, purges, _, err := jobs.List(ctx, s, s.inNamespace(all)...)
	return jobs.All(redrives, purges), err
}
