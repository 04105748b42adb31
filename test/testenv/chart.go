package testenv

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// The CRDs.
const (
	QueuesCRD      = "consumerqueues.messaging.warren.dev"
	ConnectionsCRD = "brokerconnections.messaging.warren.dev"
	RedrivesCRD    = "redrives.messaging.warren.dev"
	PurgesCRD      = "purges.messaging.warren.dev"
)

// OlderChart returns a copy of a Helm chart as an older version: its CRD of ConsumerQueues lacks spec.queue.consumerTimeout.
func OlderChart(chart string) string {
	GinkgoHelper()
	folder := filepath.Join(GinkgoT().TempDir(), "warren")
	Expect(os.CopyFS(folder, os.DirFS(chart))).To(Succeed())
	file := filepath.Join(folder, "files", "crds", "messaging.warren.dev_consumerqueues.yaml")
	content, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	crd := map[string]any{}
	Expect(yaml.Unmarshal(content, &crd)).To(Succeed())
	version := crd["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
	path := strings.Fields("schema openAPIV3Schema properties spec properties queue properties consumerTimeout")
	unstructured.RemoveNestedField(version, path...)
	content, err = yaml.Marshal(crd)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(file, content, 0o600)).To(Succeed())
	return folder
}

// KnowsConsumerTimeout reports whether the CRD of ConsumerQueues has the field that OlderChart removes.
func (s *APIServer) KnowsConsumerTimeout() bool {
	GinkgoHelper()
	path := "{.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.queue.properties.consumerTimeout.type}"
	return s.Kubectl("get", "crd", QueuesCRD, "--output=jsonpath="+path) != ""
}
