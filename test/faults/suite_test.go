// Package faults shows what Warren does when something around it fails: brokers, connections, permissions, the API
// server, and the manager itself. All parts are real; each test runs a manager process of its own, which watches the
// test's namespaces only, and reaches brokers through proxies that it can cut, hold and lead elsewhere. Messages go
// through the topologies meanwhile, and none that was confirmed may be lost.
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
	// shared is the newest broker, which other tests use too.
	shared brokers.Broker
	// older are further brokers that other tests use, too.
	older []brokers.Broker
	kube  *APIServer
	// managerBinary is what cmd/main.go is built into.
	managerBinary string
)

func TestFaults(t *testing.T) {
	SetUpGomega(30 * time.Second)
	all := brokers.All(t)
	shared, older = all[0], all[1:]
	RunSpecs(t, "Faults")
}

// given is what the first process of a run gives to all: `make test` runs the specs in several.
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

// useOwnAPIServer gives a spec an API server that the spec may stop: the worlds that it makes afterwards are there.
func useOwnAPIServer() {
	GinkgoHelper()
	before := kube
	kube = StartAPIServer()
	DeferCleanup(func() { kube = before })
}

func ctx() context.Context { return GinkgoT().Context() }
