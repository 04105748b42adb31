package deadletterapi

import (
	"context"
	"encoding/json"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/internal/controller/statuswriter"
)

// ActiveLabel marks the pod of the leader, which serves the API. The Service selects pods by this label.
const ActiveLabel = "messaging.warren.dev/active"

// Pod is the pod of this manager; the zero value outside of a cluster.
type Pod struct{ Namespace, Name string }

// label sets and clears ActiveLabel.
type label struct {
	pod    Pod
	client client.Client
	log    logr.Logger
	// cleared is closed when Start returns.
	cleared chan struct{}
}

// Start removes the label that the pod may still have from before a restart of its container.
func (l label) Start(ctx context.Context) error {
	defer close(l.cleared)
	l.patch(ctx, nil)
	return nil
}

// NeedLeaderElection makes the manager call Start before it leads.
func (l label) NeedLeaderElection() bool { return false }

func (l label) set(ctx context.Context) {
	<-l.cleared
	l.patch(ctx, "true")
}

func (l label) clear(ctx context.Context) { l.patch(ctx, nil) }

// patch sets the label, or removes it if value is nil. An error is only logged: without the label only the API is unreachable.
func (l label) patch(ctx context.Context, value any) {
	if l.pod.Name == "" {
		return
	}
	change, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{ActiveLabel: value}}})
	if err == nil {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: l.pod.Namespace, Name: l.pod.Name}}
		err = l.client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, change), statuswriter.FieldOwner)
	}
	if err != nil {
		l.log.Error(err, "Cannot change the label that the Service of the dead-letter API selects",
			"pod", l.pod.Name, "label", ActiveLabel)
	}
}
