package statuswriter

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

func TestUpdate(t *testing.T) {
	t.Parallel()
	c := controllertest.ClientBuilder(t, nil, controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{})).
		WithReturnManagedFields().Build()
	key := client.ObjectKey{Namespace: "shop", Name: "default"}
	read := func() *v1alpha1.BrokerConnection {
		bc := &v1alpha1.BrokerConnection{}
		topologytest.Equal(t, "error", nil, c.Get(t.Context(), key, bc))
		return bc
	}
	w, before := Writer{}, read()
	written := before.DeepCopy()
	written.Status.BrokerVersion = "4.3.6"
	topologytest.Equal(t, "error", nil, w.Update(t.Context(), c, written))
	topologytest.Equal(t, "version", "4.3.6", read().Status.BrokerVersion)
	topologytest.Equal(t, "resource version of the object", read().ResourceVersion, written.ResourceVersion)
	topologytest.Equal(t, "field manager", "warren", written.ManagedFields[len(written.ManagedFields)-1].Manager)

	late := before.DeepCopy()
	late.Status.BrokerVersion = "4.0.5"
	topologytest.Equal(t, "a write from an old version is stale", true, IsStale(w.Update(t.Context(), c, late)))
	topologytest.Equal(t, "version", "4.3.6", read().Status.BrokerVersion)
	topologytest.Equal(t, "the version from before is older", true, w.IsOlder(before))
	topologytest.Equal(t, "the written version is older", false, w.IsOlder(read()))
}

func TestIsStale(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"none":               {nil, false},
		"another error":      {errors.New("the API server is down"), false},
		"the object is gone": {controllertest.NotFound("orders"), false},
		"a conflict":         {controllertest.Conflict("orders"), true},
		"a wrapped conflict": {fmt.Errorf("change finalizer: %w", controllertest.Conflict("orders")), true},
		"a stale cache":      {ErrStaleCache, true},
		"a stale cache, joined with another error": {errors.Join(errors.New("the API server is down"), ErrStaleCache), true},
	} {
		topologytest.Equal(t, name, test.want, IsStale(test.err))
	}
}

func TestIsOlder(t *testing.T) {
	t.Parallel()
	at := func(version string) client.Object {
		bc := controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{})
		bc.ResourceVersion = version
		return bc
	}
	for name, test := range map[string]struct {
		then   func(w *Writer)
		cached string
		want   bool
	}{
		"older than the write":                           {cached: "9", want: true},
		"as old as the write":                            {cached: "10"},
		"newer than the write":                           {cached: "11"},
		"not a number":                                   {cached: "x"},
		"older than a write that every cache has by now": {then: func(*Writer) { time.Sleep(maxCacheLag + 1) }, cached: "9"},
		"older than a write that a cache may lack":       {then: func(*Writer) { time.Sleep(maxCacheLag) }, cached: "9", want: true},
		"older than the second write":                    {then: func(w *Writer) { w.Record(at("11")) }, cached: "10", want: true},
		"older than the write of a deleted object":       {then: func(w *Writer) { w.Forget(client.ObjectKeyFromObject(at(""))) }, cached: "9"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := &Writer{}
				topologytest.Equal(t, "before any write", false, w.IsOlder(at("1")))
				w.Record(at("10"))
				if test.then != nil {
					test.then(w)
				}
				topologytest.Equal(t, "is older", test.want, w.IsOlder(at(test.cached)))
			})
		})
	}
}
