package jobs

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// If the user may list only one kind, List returns it, and says why the other kind is missing.
func TestList(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		noRedrives, noPurges bool
		redrives, purges     int
		leavesOut, fails     bool
	}{
		"may list both":          {redrives: 1, purges: 1},
		"may list Redrives only": {noPurges: true, redrives: 1, leavesOut: true},
		"may list Purges only":   {noRedrives: true, purges: 1, leavesOut: true},
		"may list neither":       {noRedrives: true, noPurges: true, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			meta := metav1.ObjectMeta{Namespace: "shop", Name: "some"}
			kube := fake.NewClientBuilder().WithScheme(scheme).
				WithObjects(&v1alpha1.Redrive{ObjectMeta: meta}, &v1alpha1.Purge{ObjectMeta: meta}).
				WithInterceptorFuncs(interceptor.Funcs{
					List: func(ctx context.Context, kube client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
						_, ofRedrives := list.(*v1alpha1.RedriveList)
						if ofRedrives && test.noRedrives || !ofRedrives && test.noPurges {
							return apierrors.NewForbidden(schema.GroupResource{}, "", nil)
						}
						return kube.List(ctx, list, options...)
					},
				}).Build()
			redrives, purges, forbidden, err := List(t.Context(), kube)
			if len(redrives) != test.redrives || len(purges) != test.purges || forbidden != nil != test.leavesOut || err != nil != test.fails {
				t.Errorf("%d Redrives, %d Purges, forbidden %v, error %v", len(redrives), len(purges), forbidden, err)
			}
		})
	}
}
