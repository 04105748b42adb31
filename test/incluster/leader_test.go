package incluster

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/test/deadline"
)

const lease = "warren.messaging.warren.dev"

// leader returns the name of the leading pod, or "".
func (c *cluster) leader() string {
	GinkgoHelper()
	found := &coordinationv1.Lease{}
	Expect(c.Kube.Get(ctx(), client.ObjectKey{Namespace: system, Name: lease}, found)).To(Succeed())
	return holder(found)
}

// holder returns the pod of an identity, which is the pod's name and a unique suffix.
func holder(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	pod, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return pod
}

// handover describes how the leadership moved from one pod to another.
type handover struct {
	// from and to are pods.
	from, to string
	// gap is the time between the last renewal of the first pod and the first renewal of the second.
	gap time.Duration
	// givenBack reports whether the lease had no holder in between.
	givenBack bool
}

// watchLeadership returns a function that waits until a different pod leads.
func (c *cluster) watchLeadership() func() handover {
	GinkgoHelper()
	from := c.leader()
	Expect(from).NotTo(BeEmpty())
	watcher, err := c.Kube.Watch(ctx(), &coordinationv1.LeaseList{}, &client.ListOptions{
		Namespace: system, FieldSelector: fields.OneTermEqualSelector("metadata.name", lease),
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(watcher.Stop)
	return func() handover {
		GinkgoHelper()
		lastSign, givenBack := time.Time{}, false
		limit := time.After(deadline.For(30 * time.Second))
		for {
			select {
			case event := <-watcher.ResultChan():
				Expect(event.Type).NotTo(Equal(watch.Error))
				found, is := event.Object.(*coordinationv1.Lease)
				Expect(is).To(BeTrue(), "%v", event)
				switch pod := holder(found); pod {
				case "", from:
					lastSign, givenBack = found.Spec.RenewTime.Time, pod == ""
				default:
					return handover{from, pod, found.Spec.AcquireTime.Sub(lastSign), givenBack}
				}
			case <-limit:
				Fail("nobody took over from " + from)
			}
		}
	}
}
