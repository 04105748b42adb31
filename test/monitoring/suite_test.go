// Package monitoring tests the alerts and the dashboard: promtool tests the rules with artificial
// series, and a real Prometheus scrapes the real manager during faults.
package monitoring

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/test/brokers"
	. "github.com/warren-mq/warren/test/testenv"
)

var (
	broker brokers.Broker
	// programs is the directory of prometheus and promtool.
	programs string
)

// processes: 2
func TestMonitoring(t *testing.T) {
	SetUpGomega(30 * time.Second)
	broker = brokers.Newest(t)
	RunSpecs(t, "Monitoring")
}

var _ = SynchronizedBeforeSuite(func() []byte {
	command := exec.CommandContext(context.Background(), filepath.Join(Checkout, "hack", "prometheus.sh"), "path")
	command.Stderr = GinkgoWriter
	folder, err := command.Output()
	Expect(err).NotTo(HaveOccurred(), "hack/prometheus.sh path")
	return folder
}, func(folder []byte) {
	programs = strings.TrimSpace(string(folder))
	LogTo(GinkgoWriter)
})

// manifest reads a manifest of config/prometheus and fails for fields that the Prometheus operator does not know.
func manifest[T any](file string) T {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(Checkout, "config", "prometheus", file))
	Expect(err).NotTo(HaveOccurred())
	var object T
	Expect(yaml.UnmarshalStrict(text, &object)).To(Succeed())
	return object
}

// rules returns the alerts in config/prometheus.
func rules() monitoringv1.PrometheusRuleSpec {
	GinkgoHelper()
	return manifest[monitoringv1.PrometheusRule]("rules.yaml").Spec
}

// write writes an object as YAML to a directory and returns the path.
func write(folder, name string, object any) string {
	GinkgoHelper()
	text, err := yaml.Marshal(object)
	Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(folder, name)
	Expect(os.WriteFile(path, text, 0o600)).To(Succeed())
	return path
}

func ctx() context.Context { return ContextOfSpec() }
