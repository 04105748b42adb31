package check

import (
	"cmp"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"
)

// LeaseName is the Lease of the managers' leader election.
const LeaseName = "warren.messaging.warren.dev"

// ManagerLabels select the manager's Deployment and its pods.
const ManagerLabels = "app.kubernetes.io/name=warren,app.kubernetes.io/component=manager"

// Lease holds two reads of the Lease of a namespace. A check compares them, because the clocks of the user and of the manager may differ.
type Lease struct {
	Namespace string
	// First and Last are what the two reads returned; nil if Err is set.
	First, Last *coordinationv1.Lease
	// Err is why the Lease could not be read.
	Err error
	// Waited is the time between the two reads.
	Waited time.Duration
}

// Leader checks that a manager leads.
func Leader(lease Lease) Result {
	const check = "leader"
	object := named("Lease", lease.Namespace, LeaseName)
	failed := func(format string, values ...any) Result {
		return Result{State: Failed, Check: check, Object: object, Message: fmt.Sprintf(format, values...), Remedy: fmt.Sprintf(
			"Read the log of the manager:\n  kubectl --namespace %s logs --selector %s --tail=100\n"+
				"If it is installed in another namespace, add --warren-namespace.", lease.Namespace, ManagerLabels)}
	}
	switch {
	case apierrors.IsNotFound(lease.Err):
		return failed("no manager has led in this namespace")
	case lease.Err != nil:
		return Unread(check, object, lease.Err)
	}
	holder := ptr.Deref(lease.Last.Spec.HolderIdentity, "")
	switch {
	case holder == "" || lease.Last.Spec.RenewTime == nil:
		return failed("no manager leads")
	case lease.Last.Spec.RenewTime.Equal(lease.First.Spec.RenewTime):
		return failed("manager %s has not renewed the Lease for %s", holder, lease.Waited.Round(time.Second))
	}
	return Result{State: OK, Check: check, Object: object, Message: fmt.Sprintf("manager %s leads", holder)}
}

// Manager describes a Deployment of the manager. It is also the JSON form of `kubectl warren version`.
type Manager struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Image     string `json:"image"`
	// Version is the tag of the image, or the label app.kubernetes.io/version if the image has only a digest; empty if unknown.
	Version string `json:"version,omitempty"`
	Ready   int32  `json:"readyReplicas"`
}

// Managers checks the Deployments of the manager. Err is why they could not be listed.
func Managers(managers []Manager, pluginVersion string, err error) []Result {
	const check = "manager"
	switch {
	case err != nil:
		return []Result{Unread(check, "Deployments of the manager", err)}
	case len(managers) == 0:
		return []Result{{
			State: Warning, Check: check, Object: "Deployments of the manager", Message: "no Deployment has the labels " + ManagerLabels,
			Remedy: "Install Warren: " + docs + "installation/. If the manager runs without a Deployment, you can ignore this warning.",
		}}
	}
	var results []Result
	for _, manager := range managers {
		object := named("Deployment", manager.Namespace, manager.Name)
		pods := Result{State: OK, Check: check, Object: object, Message: fmt.Sprintf("ready pods: %d", manager.Ready)}
		if manager.Ready == 0 {
			pods.State, pods.Message = Failed, "no pod is ready"
			pods.Remedy = fmt.Sprintf("See why the pods do not start:\n  kubectl --namespace %s describe pods --selector %s",
				manager.Namespace, ManagerLabels)
		}
		results = append(results, pods, skew(object, manager.Version, pluginVersion))
	}
	return results
}

// skew checks that the plugin's version differs from the manager's by at most one minor version.
func skew(object, manager, plugin string) Result {
	result := Result{
		State: OK, Check: "versions", Object: object,
		Message: fmt.Sprintf("manager %s, kubectl warren %s", cmp.Or(manager, "of unknown version"), plugin),
	}
	of, errManager := version.ParseSemantic(manager)
	by, errPlugin := version.ParseSemantic(plugin)
	switch {
	case errManager != nil || errPlugin != nil:
		result.State = Skipped
		result.Message += ": only releases can be compared"
		result.Remedy = "If they are not built from the same commit, install the release of kubectl warren that belongs to the manager."
	case of.Major() != by.Major() || max(of.Minor(), by.Minor())-min(of.Minor(), by.Minor()) > 1:
		result.State = Warning
		result.Message += ": a difference of more than one minor version is not supported"
		result.Remedy = "Install kubectl warren of the manager's version: " + docs + "kubectl-warren/#install"
	}
	return result
}
