package plugin

import (
	"crypto/rand"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	. "github.com/warren-mq/warren/test/testenv"
)

// accounts returns the users and passwords of all Secrets of the suite.
func accounts() [][2]string {
	GinkgoHelper()
	list := &corev1.SecretList{}
	Expect(kube.List(ctx(), list)).To(Succeed())
	found := make([][2]string, 0, len(list.Items))
	for _, secret := range list.Items {
		found = append(found, [2]string{string(secret.Data["username"]), string(secret.Data["password"])})
	}
	return found
}

var _ = Describe("kubectl warren report", func() {
	It("contains no password of the suite, and no body, header, property or note that is hidden", func() {
		w := newWorld()
		user := broker.NewUser(GinkgoTB(), "administrator")
		w.VHost.Grant(user, ".*", ".*", ".*")
		w.Secret(user.Username, user.Password)
		w.queue("orders", `{}`)
		w.SecretNamed("refused", user.Username, rand.Text())
		w.Apply(&v1alpha1.BrokerConnection{
			ObjectMeta: metav1.ObjectMeta{Name: "refused"},
			Spec:       v1alpha1.BrokerConnectionSpec{VHost: w.VHost.Name, SecretRef: &v1alpha1.LocalObjectReference{Name: "refused"}},
		})
		body, header, property, note := w.Hide(), w.Hide(), w.Hide(), w.Hide()
		kube.Kubectl("annotate", "--namespace="+w.Namespace, "consumerqueue/orders", "kubectl.kubernetes.io/last-applied-configuration="+note,
			"messaging.warren.dev/requested-at="+note)
		kube.Kubectl("label", "--namespace="+w.Namespace, "consumerqueue/orders", "note="+note)
		w.VHost.Send("", "orders.dlq", amqp.Publishing{
			DeliveryMode: amqp.Persistent, Headers: amqp.Table{"x-tenant": header}, Body: []byte(`{"card": "` + body + `"}`), MessageId: property,
		})
		w.Redrive("chosen", `{consumerQueueRef: {name: orders}, dryRun: true, reason: `+note+`, requestedBy: `+note+`, selector: {
			expression: "body.card == '`+body+`'", headers: [{name: x-tenant, operator: In, values: [`+header+`]}]}}`)
		w.EventuallyRedrive("chosen", Condition("Ready", metav1.ConditionTrue, "DryRun"))
		w.Redrive("wrong", `{consumerQueueRef: {name: orders}, selector: {expression: "`+body+`.x == 1"}}`)
		w.EventuallyRedrive("wrong", Condition("Ready", metav1.ConditionFalse, "InvalidSelector"))
		w.Purge("few", `{consumerQueueRef: {name: orders}, dryRun: true, expectedAtMost: 1, selector: {expression: "properties.messageId == '`+property+`'"}}`)
		w.EventuallyPurge("few", Condition("Ready", metav1.ConditionTrue, "DryRun"))
		Eventually(func() string { return w.warren("check", ofSuite).Out }).Should(ContainSubstring("AuthenticationFailed"))

		folder := GinkgoT().TempDir()
		archive := filepath.Join(folder, "report.tar.gz")
		Expect(w.warren("report", "-A", "--file="+archive, ofSuite)).To(SatisfyAll(
			HaveField("Code", 0), HaveField("Out", HavePrefix("Wrote "+archive+"."))))
		Expect(exec.CommandContext(ctx(), "tar", "-xzf", archive, "-C", folder).Run()).To(Succeed())
		report := filepath.Join(folder, "warren-report")
		for file, content := range map[string]string{
			"check.txt":                           "AuthenticationFailed",
			"versions.yaml":                       "client:\n",
			"crds.yaml":                           "consumerqueues.messaging.warren.dev",
			"errors.txt":                          "",
			"managers/warren-system/manager.yaml": "leader: ",
			"namespaces/" + w.Namespace + "/events.yaml":                    "reason: Declared\n",
			"namespaces/" + w.Namespace + "/brokerconnections/refused.yaml": "reason: AuthenticationFailed\n",
			"namespaces/" + w.Namespace + "/consumerqueues/orders.yaml":     "queueName: orders\n",
			"namespaces/" + w.Namespace + "/redrives/chosen.yaml":           "reason: DryRun\n",
			"namespaces/" + w.Namespace + "/redrives/wrong.yaml":            "reason: InvalidSelector\n",
			"namespaces/" + w.Namespace + "/purges/few.yaml":                "total: 1\n",
		} {
			Expect(os.ReadFile(filepath.Join(report, file))).To(ContainSubstring(content), file)
		}
		known := accounts()
		Expect(known).To(ContainElements([2]string{user.Username, user.Password}, [2]string{"", body}))
		Expect(fs.WalkDir(os.DirFS(report), ".", func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := os.ReadFile(filepath.Join(report, path))
			for _, account := range known {
				for _, spelling := range Spellings(account[0], account[1]) {
					Expect(strings.Contains(string(content), spelling)).To(BeFalse(), "%s contains a secret of user %q", path, account[0])
				}
			}
			return err
		})).To(Succeed())
	})

	It("contains what a user with the role view may read, and lists the rest", Extended, func() {
		w := newWorld()
		w.queue("orders", `{}`)
		for _, role := range []string{"brokerconnection", "consumerqueue", "redrive"} {
			kube.Kubectl("create", "rolebinding", role, "--namespace="+w.Namespace, "--clusterrole="+role+"-viewer-role", "--user=viewer")
		}
		folder := GinkgoT().TempDir()
		archive := filepath.Join(folder, "report.tar.gz")
		w.eventuallyWarren(SatisfyAll(HaveField("Code", 0), HaveField("ErrOut", SatisfyAll(
			ContainSubstring("The report lacks Purges: "), ContainSubstring("The report lacks Deployments of the manager: "),
			Not(ContainSubstring("The report lacks ConsumerQueues"))))), "report", "--as=viewer", "--force", "--file="+archive)
		Expect(exec.CommandContext(ctx(), "tar", "-xzf", archive, "-C", folder).Run()).To(Succeed())
		for _, file := range []string{"check.txt", "errors.txt"} { // the API server names the user in each refusal
			Expect(os.ReadFile(filepath.Join(folder, "warren-report", file))).To(SatisfyAll(
				ContainSubstring(`User "[redacted]" cannot `), Not(ContainSubstring(`"viewer"`))), file)
		}
	})
})
