package main

import (
	"context"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/deadline"
)

func TestCheckOfAnInstallation(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		serves []string
		// renewals are the renewal times of the Lease, one per check; the last one stays.
		renewals []time.Time
		holder   string
		want     string
	}{
		"a manager renews the Lease": {
			serves: resources, holder: "pod-1", renewals: []time.Time{began, began.Add(2 * time.Second)},
		},
		"a manager that has stopped": {
			serves: resources, holder: "pod-1", renewals: []time.Time{began},
			want: `manager pod-1 does not renew Lease "warren.messaging.warren.dev" in namespace "warren-system"`,
		},
		"a Lease that was released": {
			serves: resources, renewals: []time.Time{began},
			want: `no manager holds Lease "warren.messaging.warren.dev"`,
		},
		"no Lease": {
			serves: resources,
			want:   `no manager leads: read Lease "warren.messaging.warren.dev" in namespace "warren-system"`,
		},
		"no CRDs": {
			want: "the API server does not serve messaging.warren.dev/v1alpha1, install the CRDs",
		},
		"older CRDs": {
			serves: resources[:3],
			want:   "the API server does not serve redrives of messaging.warren.dev/v1alpha1: upgrade the CRDs",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset()
			if test.serves != nil {
				list := &metav1.APIResourceList{GroupVersion: v1alpha1.GroupVersion.String()}
				for _, resource := range test.serves {
					list.APIResources = append(list.APIResources, metav1.APIResource{Name: resource})
				}
				client.Resources = []*metav1.APIResourceList{list}
			}
			checks := 0
			client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
				if len(test.renewals) == 0 {
					return false, nil, nil
				}
				renewed := metav1.NewMicroTime(test.renewals[min(checks, len(test.renewals)-1)])
				checks++
				return true, &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &test.holder, RenewTime: &renewed}}, nil
			})
			limit := deadline.For(time.Second)
			if test.want == "" {
				limit = deadline.For(10 * time.Second)
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			checked := check{client: client, namespace: "warren-system"}
			err := checked.until(ctx, 10*time.Millisecond)
			switch {
			case test.want == "" && (err != nil || checked.leader != test.holder):
				t.Errorf("leader %q, error %v", checked.leader, err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}
