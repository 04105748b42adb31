package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/jobs"
)

// fakeSession returns a session in the namespace shop with an API server in memory.
func fakeSession(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) session {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kube := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
	return session{WithWatch: kube, namespace: "shop"}
}

// A command waits while the API server does not answer. It ends if the answer cannot change by itself.
func TestAwaitEnds(t *testing.T) {
	t.Parallel()
	purges := v1alpha1.GroupVersion.WithResource("purges").GroupResource()
	var missing, forbidden, unauthorized error = apierrors.NewNotFound(purges, "orders-1"), apierrors.NewForbidden(purges, "orders-1", nil),
		apierrors.NewUnauthorized("expired")
	for name, test := range map[string]struct{ answer, want error }{
		"a job that was deleted":   {missing, missing},
		"a role that was removed":  {forbidden, forbidden},
		"credentials that expired": {unauthorized, unauthorized},
		"no API server":            {syscall.ECONNREFUSED, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			asked := 0
			kube := fakeSession(t, interceptor.Funcs{
				Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
					if asked++; asked == 2 {
						cancel() // it would ask forever
					}
					return test.answer
				},
			})
			last, err := kube.await(ctx, jobs.Of(&v1alpha1.Purge{}), func(jobs.Job) bool { return false }, io.Discard)
			if last != nil || !errors.Is(err, test.want) {
				t.Errorf("after %d requests job %v, error %v, want %v", asked, last, err, test.want)
			}
		})
	}
}

// A script takes exit code zero of `dlq purge --yes` as a Purge that has ended.
func TestACommandThatIsStoppedWhileItCountsFails(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	command := jobCommand{cluster: newCluster(genericiooptions.NewTestIOStreamsDiscard())}
	counted, err := command.count(ctx, fakeSession(t, interceptor.Funcs{}), &v1alpha1.Purge{ObjectMeta: generated("shop", "orders")})
	if counted != nil || err == nil || err.Error() != "stopped while counting; all messages stay in the queue" {
		t.Errorf("job %v, error %v", counted, err)
	}
}

func TestARedriveAndAPurgeOfOneName(t *testing.T) {
	t.Parallel()
	same := metav1.ObjectMeta{Namespace: "shop", Name: "same"}
	kube := fakeSession(t, interceptor.Funcs{}, &v1alpha1.Redrive{ObjectMeta: same}, &v1alpha1.Purge{ObjectMeta: same})
	_, err := kube.job(t.Context(), "same")
	wantUsage(t, err, `there are a Redrive and a Purge "same": give redrive/same or purge/same`)
}

// Warren ignores changes of a job that has ended. A command that changes one must not print that it succeeded.
func TestAJobThatHasEndedIsNotChanged(t *testing.T) {
	t.Parallel()
	redrive := &v1alpha1.Redrive{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders-1"},
		Status: v1alpha1.RedriveStatus{JobStatus: v1alpha1.JobStatus{
			CompletionTime: new(metav1.Now()),
			Conditions:     []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCompleted}},
		}},
	}
	kube := fakeSession(t, interceptor.Funcs{}, redrive)
	_, err := kube.patchJob(t.Context(), "redrive/orders-1", map[string]any{"suspend": true})
	if err == nil || !strings.Contains(err.Error(), `"orders-1" has ended already`) {
		t.Errorf("got %v", err)
	}
	now := &v1alpha1.Redrive{}
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(redrive), now); err != nil || now.Spec.Suspend {
		t.Errorf("suspended: %t, %v", now.Spec.Suspend, err)
	}
}
