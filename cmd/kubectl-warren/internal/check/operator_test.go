package check

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	leases    = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	forbidden = apierrors.NewForbidden(leases, LeaseName, errors.New("no"))
)

const (
	readLog = "Read the log of the manager:\n" +
		"  kubectl --namespace warren-system logs --selector app.kubernetes.io/name=warren,app.kubernetes.io/component=manager --tail=100\n" +
		"If it is installed in another namespace, add --warren-namespace."
	administrator = "A cluster administrator can run this command and see the result of this check."
)

func TestLeader(t *testing.T) {
	t.Parallel()
	lease := func(holder string, second int64) *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &metav1.MicroTime{Time: time.Unix(second, 0)}}}
	}
	for name, test := range map[string]struct {
		first, last    *coordinationv1.Lease
		err            error
		want           State
		message, about string
	}{
		"a manager renews the Lease": {first: lease("pod-1", 1), last: lease("pod-1", 3), want: OK, message: "manager pod-1 leads"},
		"another manager takes over": {first: lease("pod-1", 1), last: lease("pod-2", 3), want: OK, message: "manager pod-2 leads"},
		"a manager that was killed": {
			first: lease("pod-1", 1), last: lease("pod-1", 1), want: Failed, message: "manager pod-1 has not renewed the Lease for 15s", about: readLog,
		},
		"a manager that stopped cleanly": {first: lease("", 1), last: lease("", 1), want: Failed, message: "no manager leads", about: readLog},
		"another namespace": {
			err: apierrors.NewNotFound(leases, LeaseName), want: Failed, message: "no manager has led in this namespace", about: readLog,
		},
		"a user who may not read Leases": {err: forbidden, want: Skipped, message: forbidden.Error(), about: administrator},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Leader(Lease{Namespace: "warren-system", First: test.first, Last: test.last, Err: test.err, Waited: 15 * time.Second})
			want := Result{test.want, "leader", "Lease warren-system/warren.messaging.warren.dev", test.message, test.about}
			if difference := cmp.Diff(want, got); difference != "" {
				t.Errorf("(-want +got):\n%s", difference)
			}
		})
	}
}

func TestManagers(t *testing.T) {
	t.Parallel()
	const install = "Install kubectl warren of the manager's version: https://warren-mq.github.io/warren/kubectl-warren/#install"
	manager := func(version string, ready int32) []Manager {
		return []Manager{{Namespace: "warren-system", Name: "manager", Version: version, Ready: ready}}
	}
	ready := Result{OK, "manager", "Deployment warren-system/manager", "ready pods: 2", ""}
	versions := func(state State, message, remedy string) Result {
		return Result{state, "versions", "Deployment warren-system/manager", message, remedy}
	}
	for name, test := range map[string]struct {
		managers []Manager
		err      error
		want     []Result
	}{
		"one minor version older": {manager("v0.1.7", 2), nil, []Result{ready, versions(OK, "manager v0.1.7, kubectl warren v0.2.0", "")}},
		"one minor version newer": {manager("0.3.0", 2), nil, []Result{ready, versions(OK, "manager 0.3.0, kubectl warren v0.2.0", "")}},
		"two minor versions newer": {manager("v0.4.0", 2), nil, []Result{ready, versions(Warning,
			"manager v0.4.0, kubectl warren v0.2.0: a difference of more than one minor version is not supported", install)}},
		"another major version": {manager("v1.2.0", 2), nil, []Result{ready, versions(Warning,
			"manager v1.2.0, kubectl warren v0.2.0: a difference of more than one minor version is not supported", install)}},
		"a build that is no release": {manager("", 2), nil, []Result{ready, versions(Skipped,
			"manager of unknown version, kubectl warren v0.2.0: only releases can be compared",
			"If they are not built from the same commit, install the release of kubectl warren that belongs to the manager.")}},
		"no pod": {manager("v0.2.0", 0), nil, []Result{{
			Failed, "manager", "Deployment warren-system/manager", "no pod is ready",
			"See why the pods do not start:\n  kubectl --namespace warren-system describe pods --selector " +
				"app.kubernetes.io/name=warren,app.kubernetes.io/component=manager",
		}, versions(OK, "manager v0.2.0, kubectl warren v0.2.0", "")}},
		"no Deployment": {nil, nil, []Result{{
			Warning, "manager", "Deployments of the manager",
			"no Deployment has the labels app.kubernetes.io/name=warren,app.kubernetes.io/component=manager",
			"Install Warren: https://warren-mq.github.io/warren/installation/. If the manager runs without a Deployment, you can ignore this warning.",
		}}},
		"a user who may not list Deployments": {nil, forbidden, []Result{{Skipped, "manager", "Deployments of the manager", forbidden.Error(), administrator}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if difference := cmp.Diff(test.want, Managers(test.managers, "v0.2.0", test.err)); difference != "" {
				t.Errorf("(-want +got):\n%s", difference)
			}
		})
	}
}
