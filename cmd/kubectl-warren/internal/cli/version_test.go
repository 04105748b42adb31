package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/check"
)

func TestManagerOf(t *testing.T) {
	t.Parallel()
	for image, version := range map[string]string{
		"ghcr.io/warren-mq/warren:v1.2.3":            "v1.2.3",
		"localhost:5000/warren":                      "v0.1.0",
		"localhost:5000/warren:v1@sha256:0123456789": "v1",
		"warren@sha256:0123456789":                   "v0.1.0",
	} {
		t.Run(image, func(t *testing.T) {
			t.Parallel()
			deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
				Namespace: "warren-system", Name: "manager", Labels: map[string]string{"app.kubernetes.io/version": "v0.1.0"},
			}}
			deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "proxy", Image: "proxy:v9"}, {Name: "manager", Image: image}}
			deployment.Status.ReadyReplicas = 2
			want := check.Manager{Namespace: "warren-system", Name: "manager", Image: image, Version: version, Ready: 2}
			if difference := cmp.Diff(want, managerOf(deployment)); difference != "" {
				t.Errorf("(-want +got):\n%s", difference)
			}
		})
	}
}
