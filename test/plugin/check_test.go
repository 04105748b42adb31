package plugin

import (
	"encoding/json"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	. "github.com/warren-mq/warren/test/testenv"
)

// states returns the states in the output of `kubectl warren check -o json`, each behind its check.
func states(out string) ([]string, error) {
	var printed struct {
		Checks []struct{ State, Check string }
	}
	err := json.Unmarshal([]byte(out), &printed)
	list := make([]string, len(printed.Checks))
	for i, each := range printed.Checks {
		list[i] = fmt.Sprintf("%s: %s", each.Check, each.State)
	}
	return list, err
}

// ofSuite leaves out managers that other specs pretend to have.
const ofSuite = "--warren-namespace=warren-system"

var _ = Describe("kubectl warren check", func() {
	It("finds no fault if Warren works, and lists the deletions that would not end without a manager", Long, func() {
		w := newWorld()
		w.queue("orders", `{}`)
		w.Account("warren-dead-letters", "deadletterqueue_viewer_role")
		w.eventuallyWarren(SatisfyAll(HaveField("Code", 0), HaveField("Out", WithTransform(states, HaveExactElements(
			"leader: ok", "manager: warning", // no Deployment runs the manager of this suite
			"CRDs: ok", "your role: ok", "your role: ok", "your role: ok", "dead-letter API: ok",
			"connection: ok", "broker version: ok", "user tags: ok", HavePrefix("events: "), "user permissions: ok", "ConsumerQueues: ok",
		)))), "check", "-o", "json", ofSuite)
		Expect(w.warren("check", ofSuite).Out).To(MatchRegexp(
			`(?m)^ok +connection +BrokerConnection ` + w.Namespace + `/default +connected to RabbitMQ .*$`))

		stranger := w.warren("check", "-o", "json", "--as=stranger", ofSuite)
		Expect(stranger.Code).To(Equal(2))
		Expect(states(stranger.Out)).To(HaveExactElements(
			"leader: skipped", "manager: skipped", "CRDs: ok", "your role: failed", "your role: warning", "your role: warning",
			"dead-letter API: warning", "connection: skipped"))

		Expect(states(w.warren("check", "-o", "json", "--warren-service=none", ofSuite).Out)).To(ContainElement("dead-letter API: warning"))

		hangs := w.warren("check", "--uninstall", ofSuite)
		Expect(hangs).To(SatisfyAll(HaveField("Code", 2), HaveField("Out", SatisfyAll(
			MatchRegexp(`(?m)^failed +finalizers +ConsumerQueue `+w.Namespace+`/orders +its deletion waits until Warren has deleted its empty queues`),
			MatchRegexp(`(?m)^failed +finalizers +BrokerConnection `+w.Namespace+`/default +its deletion waits until`),
			ContainSubstring("in this order, until the last command finds nothing:\n  kubectl --namespace "+w.Namespace+
				" delete redrives,purges,consumerqueues --all\n")))))
		kube.Kubectl("delete", "--namespace="+w.Namespace, "consumerqueues,brokerconnections", "--all")
		Expect(w.warren("check", "--uninstall", ofSuite)).To(SatisfyAll(HaveField("Code", 0), HaveField("Out", ContainSubstring(
			"no deletion waits for a manager in namespace"))))
	})

	It("names the tag and the permission that the RabbitMQ user lacks", func() {
		w := newWorld()
		user := broker.NewUser(GinkgoTB(), "management")
		w.VHost.Grant(user, "^(orders|warren-link-)", "^orders", "^orders") // not amq.default, to which delay tiers dead-letter
		w.Secret(user.Username, user.Password)
		w.Queue("orders", `{}`)
		w.eventuallyWarren(SatisfyAll(HaveField("Code", 2), HaveField("Out", SatisfyAll(
			MatchRegexp(`(?m)^ok +connection `),
			MatchRegexp(`(?m)^warning +user tags .* the user lacks the tag policymaker`),
			ContainSubstring("rabbitmqctl set_user_tags USER PRESENT_TAGS policymaker\n"),
			MatchRegexp(`(?m)^failed +user permissions .*amq.default`)))), "check", ofSuite)
	})
})
