package plugin

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	deadletters "github.com/warren-mq/warren/api/deadletters/v1alpha1"
	. "github.com/warren-mq/warren/test/testenv"
)

// editor returns a user with the built-in role edit in the namespace, except the permissions on dead letters, which the ServiceAccount
// has. The controller that would aggregate the role does not run here.
const editor = "--as=editor"

func (w *world) letEdit() {
	GinkgoHelper()
	for _, role := range []string{"system:aggregate-to-view", "system:aggregate-to-edit", "consumerqueue-viewer-role"} {
		kube.Kubectl("create", "rolebinding", strings.ReplaceAll(role, ":", "-"), "--namespace="+w.Namespace, "--clusterrole="+role, "--user=editor")
	}
	Eventually(func() int { return w.warren("dlq", "ls", editor).Code }).Should(Equal(0))
}

var _ = Describe("kubectl warren dlq, browsing", func() {
	It("lists, counts, prints and exports dead letters for users with the role edit", func() {
		w := newWorld()
		w.queue("orders", `{}`)
		w.letEdit()
		w.park("orders.dlq", 3)

		w.eventuallyWarren(SatisfyAll(HaveField("Code", 1),
			HaveField("ErrOut", ContainSubstring("kubectl --namespace "+w.Namespace+" create serviceaccount warren-dead-letters\n")),
			HaveField("ErrOut", ContainSubstring("--clusterrole=warren-deadletterqueue-editor-role --serviceaccount="+w.Namespace+":warren-dead-letters\n"))),
			"dlq", "show", "orders", editor)
		w.Account("warren-dead-letters", "deadletterqueue_editor_role")

		Eventually(func() string { return w.warren("dlq", "ls", editor).Out }).Should(MatchRegexp(
			`^NAME     QUEUE        MESSAGES   COUNTED   UNDER WAY\norders   orders\.dlq   3          \d+m?s +-\n$`), "who may not list Redrives")
		Expect(w.warren("dlq", "ls", "-A").Out).To(ContainSubstring(w.Namespace))

		w.eventuallyWarren(SatisfyAll(HaveField("Code", 0),
			HaveField("Out", HavePrefix("Queue orders.dlq: 3 messages.\n\nREASON   QUEUE   N   COUNT   REDRIVEN   OLDEST   NEWEST   SAMPLE\n")),
			HaveField("ErrOut", ContainSubstring(`--died-reason Parked --expression 'origin.queue == ""' --header n=0`+"\n"))), "dlq", "show", "orders", "--group-by=n", editor)

		listed := func(out string) (list deadletters.DeadLetterList, err error) {
			err = json.Unmarshal([]byte(out), &list)
			return list, err
		}
		w.eventuallyWarren(HaveField("Out", WithTransform(listed, SatisfyAll(
			HaveField("Kind", "DeadLetterList"), HaveField("Items", HaveLen(1)), HaveField("NextPosition", HaveValue(BeEquivalentTo(2)))))),
			"dlq", "peek", "orders", "--position=1", "--limit=1", "-o", "json", editor)
		ids := strings.Fields(w.eventuallyWarren(HaveField("Out", WithTransform(strings.Fields, HaveLen(2))),
			"dlq", "peek", "orders", "--expression=headers.n > 0", "-o", "name", editor).Out)
		w.eventuallyWarren(HaveField("Out", SatisfyAll(
			HavePrefix("Queue orders.dlq: 3 messages, 1 printed.\n\nPosition:     2\nID:           "+ids[1]+"\nReason:       Parked\n"),
			ContainSubstring("\nHeaders:      n: 2\n"),
			HaveSuffix("\nBody:         8 bytes\n  {\n    \"n\": 2\n  }\n"))),
			"dlq", "peek", "orders", "--id="+ids[1], "--died-reason=parked", editor)

		w.eventuallyWarren(Equal(ended{Out: ids[0] + "\n" + ids[1] + "\n"}), "dlq", "peek", "orders", "--header=n=1", "--header=n=2", "-o", "name", editor)
		w.eventuallyWarren(SatisfyAll(HaveField("Code", 0), HaveField("Out", ContainSubstring(
			"3 messages, 0 printed.\nLeft out because the expression failed on them: 3 (NotEvaluated). The first error: no such key: oder.\n"))),
			"dlq", "peek", "orders", "--expression=body.oder == 1", editor)

		w.eventuallyWarren(SatisfyAll(HaveField("Code", 1), HaveField("Out", BeEmpty()),
			HaveField("ErrOut", ContainSubstring(`cannot get resource "deadletterqueues/export"`)),
			HaveField("ErrOut", ContainSubstring("--clusterrole=warren-deadletterqueue-admin-role"))), "dlq", "export", "orders", editor)
		w.Account("exporter", "deadletterqueue_admin_role")
		path := filepath.Join(GinkgoT().TempDir(), "orders.ndjson")
		w.EventuallyMessages("orders.dlq", Equal(3))
		w.eventuallyWarren(Equal(ended{ErrOut: "Exported 3 messages.\n"}),
			"dlq", "export", "orders", "--service-account=exporter", "--file="+path, "--force", editor)
		content, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.Split(string(content), "\n")).To(SatisfyAll(HaveLen(5), HaveExactElements(
			ContainSubstring(`"position":0`), ContainSubstring(`"position":1`), ContainSubstring(`"position":2`),
			Equal(`{"kind":"ExportEnd","count":3,"ready":3,"partial":false}`), BeEmpty())))
		Expect(path + ".part").NotTo(BeAnExistingFile())
		Expect(w.warren("dlq", "export", "orders", "--file="+path, editor)).To(SatisfyAll(
			HaveField("Code", 1), HaveField("ErrOut", ContainSubstring("replace the file with --force"))))
		w.eventuallyWarren(SatisfyAll(HaveField("Code", 0), HaveField("ErrOut", ContainSubstring(
			"Left out because their time of death is unknown: 3 (Undated).\nExported 0 messages.\n"))),
			"dlq", "export", "orders", "--service-account=exporter", "--died-after=30d", editor)

		w.EventuallyMessages("orders.dlq", Equal(3))
		moved := w.warren("dlq", "redrive", "orders", "--id="+ids[1], "--died-reason=parked", "--yes")
		Expect(moved).To(SatisfyAll(HaveField("Code", 0), HaveField("Out", ContainSubstring("Completed: 1 of 3 messages moved"))))
	})

	It("lets a ServiceAccount with the role view count but not read", Extended, func() {
		w := newWorld()
		w.queue("orders", `{}`)
		w.letEdit()
		w.park("orders.dlq", 2)
		w.Account("warren-dead-letters", "deadletterqueue_viewer_role")
		w.eventuallyWarren(SatisfyAll(
			HaveField("Code", 0), HaveField("Out", ContainSubstring("Queue orders.dlq: 2 messages."))), "dlq", "show", "orders", editor)
		w.eventuallyWarren(SatisfyAll(HaveField("Code", 1), HaveField("Out", BeEmpty()),
			HaveField("ErrOut", ContainSubstring(`cannot get resource "deadletterqueues/messages"`)),
			HaveField("ErrOut", ContainSubstring("Ask a user with the role admin in the namespace to run:\n  kubectl --namespace "+w.Namespace+
				" create rolebinding warren-dead-letters-deadletterqueue-editor-role --clusterrole=warren-deadletterqueue-editor-role"))), "dlq", "peek", "orders", editor)
	})

	It("names the missing role to users with the role view", Long, func() {
		w := newWorld()
		w.queue("orders", `{}`)
		w.park("orders.dlq", 2)
		w.Account("warren-dead-letters", "deadletterqueue_viewer_role")
		for _, role := range []string{"brokerconnection", "consumerqueue", "redrive"} {
			kube.Kubectl("create", "rolebinding", role, "--namespace="+w.Namespace, "--clusterrole="+role+"-viewer-role", "--user=viewer")
		}
		viewer := func(args ...string) ended {
			return w.warren(append(append([]string{"dlq"}, args...), "--as=viewer")...)
		}
		Eventually(func() string { return viewer("ls").Out }).Should(MatchRegexp(`orders +orders\.dlq +2 `))
		for _, verb := range []string{"show", "peek", "export"} {
			Eventually(viewer).WithArguments(verb, "orders").Should(SatisfyAll(HaveField("Code", 1), HaveField("Out", BeEmpty()), HaveField("ErrOut", ContainSubstring(
				`you may not create tokens of "warren-dead-letters" in namespace "`+w.Namespace+`". Ask a user with the role admin`))), verb)
		}
		Eventually(viewer).WithArguments("redrive", "orders", "--yes").Should(SatisfyAll(HaveField("Code", 1), HaveField("Out", BeEmpty()),
			HaveField("ErrOut", ContainSubstring(`cannot create resource "redrives"`)),
			HaveField("ErrOut", ContainSubstring("ask for a role in the namespace. Reading needs the role view. Moving dead letters, and approving or aborting a recreation, need the role edit"))))
		Eventually(viewer).WithArguments("purge", "orders", "--expected-at-most=2", "--yes").Should(SatisfyAll(HaveField("Code", 1), HaveField("Out", BeEmpty()),
			HaveField("ErrOut", ContainSubstring(`cannot create resource "purges"`)),
			HaveField("ErrOut", ContainSubstring("deleting dead letters needs the role admin in the namespace"))))

		kube.Kubectl("create", "role", "token", "--namespace="+w.Namespace, "--verb=create", "--resource=serviceaccounts/token",
			"--resource-name=warren-dead-letters")
		kube.Kubectl("create", "rolebinding", "token", "--namespace="+w.Namespace, "--role=token", "--user=viewer")
		Eventually(func() ended { return viewer("show", "orders") }).Should(SatisfyAll(
			HaveField("Code", 0), HaveField("Out", ContainSubstring("Queue orders.dlq: 2 messages."))))
		for verb, role := range map[string]string{"peek": "warren-deadletterqueue-editor-role", "export": "warren-deadletterqueue-admin-role"} {
			Eventually(viewer).WithArguments(verb, "orders").Should(SatisfyAll(HaveField("Code", 1), HaveField("Out", BeEmpty()), HaveField("ErrOut", SatisfyAll(
				ContainSubstring("Ask a user with the role admin in the namespace to run:\n"), ContainSubstring(" --clusterrole="+role+" ")))), verb)
		}
		Eventually(func() int { return w.VHost.Ready("orders.dlq") }).Should(Equal(2))
	})

	It("completes names with kubectl's completion script", func() {
		w := newWorld()
		w.queue("orders", `{}`)
		folder := GinkgoT().TempDir()
		printed := w.warren("completion", "--for-kubectl")
		Expect(printed).To(HaveField("Code", 0), printed.ErrOut)
		Expect(os.WriteFile(filepath.Join(folder, "kubectl_complete-warren"), []byte(printed.Out), 0o700)).To(Succeed())
		for want, args := range map[string][]string{
			"orders\n":   {"peek", "--namespace=" + w.Namespace, ""},
			"Rejected\n": {"peek", "orders", "--died-reason", "Rej"},
			"redrive\t":  {"redr"},
		} {
			command := exec.CommandContext(ctx(), KubectlPath(), append([]string{"__complete", "warren", "dlq"}, args...)...)
			path := strings.Join([]string{folder, plugins, filepath.Dir(KubectlPath()), os.Getenv("PATH")}, ":")
			command.Env = append(os.Environ(), "KUBECONFIG="+kube.KubeConfig, "PATH="+path)
			Expect(run(command)).To(SatisfyAll(HaveField("Code", 0), HaveField("Out", HavePrefix(want))))
		}
	})

	It("says why a browse is not possible", Extended, func() {
		w := newWorld()
		w.queue("orders", `{deadLetter: {queue: {deliveryLimit: 3}}}`)
		w.letEdit()
		w.Account("warren-dead-letters", "deadletterqueue_editor_role")
		for because, args := range map[string][]string{
			`queue "orders.dlq" has a delivery limit`:       {"orders"},
			`"none" not found`:                              {"none"},
			`limit: "5000" must be a number from 1 to 1000`: {"orders", "--limit=5000"},
			`expression: `:                                  {"orders", "--expression=nothing"},
			`Service "warren-dead-letters" in namespace "default" does not answer`: {"orders", "--warren-namespace=default", "--as=admin", "--as-group=system:masters"},
			`warren-dead-letters-proxy-role`:                                       {"orders", "--warren-namespace=default"},
			`serviceaccounts "nobody" not found`:                                   {"orders", "--service-account=nobody"},
			`you may not create tokens of "warren-dead-letters"`:                   {"orders", "--as=stranger"},
		} {
			w.eventuallyWarren(SatisfyAll(HaveField("Code", 1), HaveField("Out", BeEmpty()), HaveField("ErrOut", ContainSubstring(because))),
				append([]string{"dlq", "peek", editor}, args...)...)
		}
		Expect(w.warren("dlq", "peek", "orders", "--died-reason=boredom")).To(HaveField("Code", 1))
		for want, args := range map[string][]string{
			"orders\n":               {"peek", ""},
			"consumerqueue/orders\n": {"redrive", "orders", "--to", "consumerqueue/"},
			"warren-dead-letters\n":  {"peek", "orders", "--service-account", ""},
		} {
			Expect(w.warren(append([]string{"__complete", "dlq"}, args...)...).Out).To(HavePrefix(want))
		}
	})
})
