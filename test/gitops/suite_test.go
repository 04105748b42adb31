// Package gitops tests Warren with tools that deliver resources from Git. The real controllers of Flux and Argo CD apply a Git
// repository to a real API server, and the real manager works with a real broker. The specs for all tools are in cases_test.go, and
// each tool has its own file.
package gitops

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/warren-mq/warren/test/brokers"
	. "github.com/warren-mq/warren/test/testenv"
)

var (
	broker brokers.Broker
	// kube is the cluster that the tools deliver to.
	kube *APIServer
	// manager works in every namespace of the cluster.
	manager *Manager
)

func TestGitOps(t *testing.T) {
	SetUpGomega(30 * time.Second)
	broker = brokers.Newest(t)
	RunSpecs(t, "GitOps")
}

// The first process builds the manager for all.
var _ = SynchronizedBeforeSuite(func() []byte {
	return []byte(BuildManager())
}, func(binary []byte) {
	LogTo(GinkgoWriter)
	kube = StartAPIServer(func(environment *envtest.Environment) {
		environment.CRDDirectoryPaths = append(environment.CRDDirectoryPaths,
			filepath.Join(Checkout, "test", "deployment", "testdata", "rabbitmqcluster.yaml"))
	})
	everyNamespace := []string(nil)
	manager = kube.StartManager(string(binary), everyNamespace)
})

// ctx ends with the test.
func ctx() context.Context { return ContextOfSpec() }
