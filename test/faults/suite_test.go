// Package faults tests Warren while brokers, connections, permissions, the API
// server or the manager itself fail. All parts are real. Each test runs its own manager process, which watches only the
// test's namespaces and reaches brokers through proxies that fail on request. Messages flow
// through the topologies meanwhile, and no confirmed message may be lost.
package faults

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/test/brokers"
	. "github.com/warren-mq/warren/test/testenv"
)

var (
	// shared is the newest broker, which other tests use, too.
	shared brokers.Broker
	// older are further brokers that other tests use, too.
	older []brokers.Broker
	kube  *APIServer
	// managerBinary is the path of the manager.
	managerBinary string
)

func TestFaults(t *testing.T) {
	SetUpGomega(30 * time.Second)
	all := brokers.All(t)
	shared, older = all[0], all[1:]
	RunSpecs(t, "Faults")
}

// given is created by the first process of a run: `make test` runs the specs in several.
type given struct{ ManagerBinary, KubeConfig string }

var _ = SynchronizedBeforeSuite(func() []byte {
	text, err := json.Marshal(given{ManagerBinary: BuildManager(), KubeConfig: SharedAPIServer().KubeConfig})
	Expect(err).NotTo(HaveOccurred())
	return text
}, func(text []byte) {
	LogTo(GinkgoWriter)
	from := given{}
	Expect(json.Unmarshal(text, &from)).To(Succeed())
	managerBinary, kube = from.ManagerBinary, Connect(from.KubeConfig)
})

// useOwnAPIServer starts a private API server, which the spec may stop. Worlds that it creates afterwards use it.
func useOwnAPIServer() {
	GinkgoHelper()
	before := kube
	kube = StartAPIServer()
	DeferCleanup(func() { kube = before })
}

func ctx() context.Context { return ContextOfSpec() }
