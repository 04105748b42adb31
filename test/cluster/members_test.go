package cluster

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("The members of a queue", func() {
	It("have an advisory while they are fewer than the spec requests", func() {
		w := newWorld(1, 1)
		name := w.Queues("orders", 1, quick)[0]
		alone := w.Queues("alone", 1, `{queue: {initialGroupSize: 1}, retry: {policy: None}, deadLetter: {policy: Disabled}}`)[0]
		w.AllReady(2)
		third := nodes.Name(3)
		w.VHost.RemoveMember(name+".dlq", third)
		few := v1alpha1.Advisory{
			Code: v1alpha1.AdvisoryFewMembers, Name: name + ".dlq",
			Message: fmt.Sprintf("queue %q has members on only 2 of 3 nodes; it should have 3 members: "+
				"add members with rabbitmq-queues add_member, or for many queues with rabbitmq-queues grow", name+".dlq"),
		}
		w.Eventually(name, HaveField("Status.Advisories", ConsistOf(few)), Condition("Ready", metav1.ConditionTrue, "InSync"))
		w.VHost.AddMember(name+".dlq", third)
		w.Eventually(name, HaveField("Status.Advisories", BeEmpty()))
		Consistently(w.Get).WithArguments(alone).WithTimeout(time.Second).
			Should(HaveField("Status.Advisories", BeEmpty()), "one member is what was asked for")
	})
})
