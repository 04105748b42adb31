package gitops

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	. "github.com/warren-mq/warren/test/gitenv"
	. "github.com/warren-mq/warren/test/testenv"
)

// customizations has a folder for each kind, like the repository of Argo CD.
const customizations = Checkout + "/config/argocd/resource_customizations/messaging.warren.dev"

// argoCDProgram runs Argo CD. Its first argument is "argocd".
var argoCDProgram string

// healthTests is the format of Argo CD's health_test.yaml.
type healthTests struct {
	Tests []struct {
		InputPath    string `json:"inputPath"`
		HealthStatus struct {
			Status  string `json:"status"`
			Message string `json:"message"`
		} `json:"healthStatus"`
	} `json:"tests"`
}

// actionTests is the format of Argo CD's action_test.yaml.
type actionTests struct {
	DiscoveryTests []struct {
		InputPath string `json:"inputPath"`
		Result    []struct {
			Name     string `json:"name"`
			Disabled bool   `json:"disabled"`
		} `json:"result"`
	} `json:"discoveryTests"`
	ActionTests []struct {
		Action             string `json:"action"`
		InputPath          string `json:"inputPath"`
		ExpectedOutputPath string `json:"expectedOutputPath"`
	} `json:"actionTests"`
}

// Argo CD's Lua engine runs the health checks and actions that config/argocd adds to argocd-cm on recorded resources.
var _ = Describe("Argo CD with the component config/argocd", func() {
	BeforeEach(func() { argoCDProgram = ToolScript("argocd") })

	for _, kind := range []string{"BrokerConnection", "ConsumerQueue"} {
		It("computes the health of a "+kind, func() {
			for _, test := range load[healthTests](kind, "health_test.yaml").Tests {
				want := "STATUS: " + test.HealthStatus.Status + "\nMESSAGE: " + test.HealthStatus.Message + "\n"
				Expect(customization("health", filepath.Join(customizations, kind, test.InputPath))).To(Equal(want), test.InputPath)
			}
		})

		It("computes the health of every recorded "+kind, func() {
			var tested []string
			for _, test := range load[healthTests](kind, "health_test.yaml").Tests {
				tested = append(tested, test.InputPath)
			}
			var recorded []string
			for name := range situations[kind] {
				recorded = append(recorded, "testdata/"+name+".yaml")
			}
			Expect(tested).To(ConsistOf(recorded))
		})

		It("offers only useful actions for a "+kind, func() {
			for _, test := range load[actionTests](kind, "actions/action_test.yaml").DiscoveryTests {
				want := map[string]string{"NAME": "DISABLED"}
				for _, action := range test.Result {
					want[action.Name] = map[bool]string{true: "true", false: "false"}[action.Disabled]
				}
				listed := customization("list-actions", filepath.Join(customizations, kind, "actions", test.InputPath))
				Expect(table(listed)).To(Equal(want), test.InputPath)
			}
		})

		It("runs actions on a "+kind+" and changes nothing else", func() {
			for _, test := range load[actionTests](kind, "actions/action_test.yaml").ActionTests {
				folder := filepath.Join(customizations, kind, "actions")
				want, err := os.ReadFile(filepath.Join(folder, test.ExpectedOutputPath))
				Expect(err).NotTo(HaveOccurred())
				Expect(withoutTime(changedBy(test.Action, filepath.Join(folder, test.InputPath)))).To(MatchYAML(withoutTime(string(want))), test.Action)
			}
		})
	}
})

func load[T any](kind, file string) (content T) {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(customizations, kind, file))
	Expect(err).NotTo(HaveOccurred())
	Expect(yaml.UnmarshalStrict(text, &content)).To(Succeed())
	return content
}

// customization runs an argocd command on a resource.
func customization(command, path string, arguments ...string) string {
	GinkgoHelper()
	arguments = append([]string{"argocd", "admin", "settings", "resource-overrides", command, path}, arguments...)
	arguments = append(arguments, "--argocd-cm-path", filepath.Join(Checkout, "config", "argocd", "argocd-cm.yaml"))
	process := exec.CommandContext(ctx(), argoCDProgram, arguments...)
	// Argo CD prints the changed resource instead of a difference.
	process.Env = append(os.Environ(), `KUBECTL_EXTERNAL_DIFF=sh -c 'cat "$1"'`)
	process.Stderr = GinkgoWriter
	output, err := process.Output()
	Expect(err).NotTo(HaveOccurred(), "%s", output)
	return string(output)
}

// act runs an action on the ConsumerQueue "orders" and patches it, like Argo CD's server.
func (w *world) act(action string) {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), "orders.yaml")
	live := kube.Kubectl("get", "consumerqueue", "orders", "--namespace", w.Namespace, "--output=yaml")
	Expect(os.WriteFile(path, []byte(live), 0o600)).To(Succeed())
	Expect(os.WriteFile(path, []byte(changedBy(action, path)), 0o600)).To(Succeed())
	kube.Kubectl("patch", "consumerqueue", "orders", "--namespace", w.Namespace, "--type=merge", "--patch-file", path)
}

// changedBy returns the resource after an action.
func changedBy(action, path string) string {
	GinkgoHelper()
	_, changed, _ := strings.Cut(customization("run-action", path, action), "Following fields have been changed:")
	return changed
}

// table reads two columns.
func table(text string) map[string]string {
	rows := map[string]string{}
	for line := range strings.Lines(text) {
		if columns := strings.Fields(line); len(columns) == 2 {
			rows[columns[0]] = columns[1]
		}
	}
	return rows
}

var requestedAt = regexp.MustCompile(`(messaging\.warren\.dev/requested-at:) "\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"`)

// withoutTime removes the time of a requested action.
func withoutTime(text string) string { return requestedAt.ReplaceAllString(text, "$1 then") }
