package deadletterapi

import (
	"context"
	"encoding/json"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ActiveLabel is the label of the pod whose manager leads and serves the API. The Service selects pods by it.
const ActiveLabel = "messaging.warren.dev/active"

// Pod is the pod that the manager runs in; the zero Pod outside of a cluster.
type Pod struct{ Namespace, Name string }

// label keeps ActiveLabel.
type label struct {
	pod    Pod
	client client.Client
	log    logr.Logger
	// cleared is closed when Start is done.
	cleared chan struct{}
}

// Start takes away the label that the pod has from a time when its manager led: the container was restarted since.
func (l label) Start(ctx context.Context) error {
	defer close(l.cleared)
	l.patch(ctx, nil)
	return nil
}

// NeedLeaderElection has that done at the start.
func (l label) NeedLeaderElection() bool { return false }

func (l label) set(ctx context.Context) {
	<-l.cleared
	l.patch(ctx, "true")
}

func (l label) clear(ctx context.Context) { l.patch(ctx, nil) }

// patch sets the label, or removes it with nil. The API is of no use to others without the label, and the operator is: so it goes on.
func (l label) patch(ctx context.Context, value any) {
	if l.pod.Name == "" {
		return
	}
	change, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{ActiveLabel: value}}})
	if err == nil {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: l.pod.Namespace, Name: l.pod.Name}}
		err = l.client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, change))
	}
	if err != nil {
		l.log.Error(err, "The label of the manager's pod cannot be changed, by which the Service of the dead-letter API finds it",
			"pod", l.pod.Name, "label", ActiveLabel)
	}
}
