package cli

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// jobsNamed returns the candidates for an argument: NAME means both kinds, redrive/NAME or purge/NAME one of them.
func jobsNamed(argument, namespace string) ([]job, error) {
	resource, name, hasKind := strings.Cut(argument, "/")
	if !hasKind {
		resource, name = "", argument
	}
	resource, _, _ = strings.Cut(strings.ToLower(resource), ".") // -o name includes the group
	metadata := metav1.ObjectMeta{Namespace: namespace, Name: name}
	redrive, purge := redriveJob{&v1alpha1.Redrive{ObjectMeta: metadata}}, purgeJob{&v1alpha1.Purge{ObjectMeta: metadata}}
	switch {
	case name == "" || strings.Contains(name, "/"):
	case !hasKind:
		return []job{redrive, purge}, nil
	case resource == "redrive" || resource == "redrives":
		return []job{redrive}, nil
	case resource == "purge" || resource == "purges":
		return []job{purge}, nil
	}
	return nil, usageError("%q is neither a Redrive nor a Purge: want NAME, redrive/NAME or purge/NAME", argument)
}

// job returns the job that an argument names.
func (s session) job(ctx context.Context, argument string) (job, error) {
	named, err := jobsNamed(argument, s.namespace)
	if err != nil {
		return nil, err
	}
	var found []job
	var missing error
	for _, each := range named {
		err := s.Get(ctx, client.ObjectKeyFromObject(each.object()), each.object())
		switch {
		case err == nil:
			found = append(found, each)
		case !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
			return nil, err
		case missing == nil:
			missing = err
		}
	}
	switch len(found) {
	case 0:
		return nil, missing
	case 1:
		return found[0], nil
	}
	return nil, usageError("there are a Redrive and a Purge %q: want redrive/%[1]s or purge/%[1]s", argument)
}

// jobs returns the Redrives and Purges of the namespace, or of all. It leaves out Purges if the user may not list them.
func (s session) jobs(ctx context.Context, all bool) ([]job, error) {
	redrives, purges, err := s.redrivesAndPurges(ctx, all)
	return jobsOf(redrives, purges), err
}

func (s session) redrivesAndPurges(ctx context.Context, all bool) ([]v1alpha1.Redrive, []v1alpha1.Purge, error) {
	redrives, purges := &v1alpha1.RedriveList{}, &v1alpha1.PurgeList{}
	if err := s.List(ctx, redrives, s.inNamespace(all)...); err != nil {
		return nil, nil, err
	}
	if err := s.List(ctx, purges, s.inNamespace(all)...); err != nil && !apierrors.IsForbidden(err) {
		return nil, nil, err
	}
	return redrives.Items, purges.Items, nil
}

func jobsOf(redrives []v1alpha1.Redrive, purges []v1alpha1.Purge) []job {
	jobs := make([]job, 0, len(redrives)+len(purges))
	for i := range redrives {
		jobs = append(jobs, redriveJob{&redrives[i]})
	}
	for i := range purges {
		jobs = append(jobs, purgeJob{&purges[i]})
	}
	return jobs
}
