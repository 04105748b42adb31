// Package deployment runs the manager as the manifests deploy it: the binary, with the Deployment's arguments and environment and
// a token of its ServiceAccount, against a real API server with RBAC. A missing permission is a real refusal.
package deployment

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/warren-mq/warren/test/brokers"
	. "github.com/warren-mq/warren/test/testenv"
)

const (
	// system is the namespace of the operator.
	system = "warren-system"
	// config is the directory of the manifests.
	config = Checkout + "/config"
)

var (
	broker brokers.Broker
	// binary is the manager, built as for the image.
	binary string
	// roles are the manager's roles in config/default and config/contract.
	roles []role
	// whole is a cluster with both installed.
	whole *cluster
)

func TestDeployment(t *testing.T) {
	SetUpGomega(30 * time.Second)
	broker = brokers.Newest(t)
	roles = slices.Concat(rolesIn(t, filepath.Join(config, "default")), rolesIn(t, filepath.Join(config, "contract")))
	if len(roles) < 4 {
		t.Fatalf("config/ does not have the roles to test: %v", roles)
	}
	RunSpecs(t, "Warren, deployed")
}

// The first process builds the binary for all. Each process has its own cluster, because a spec changes roles and a
// cluster has one leader. A cluster takes 10 s of CPU, so there are few.
//
// processes: 2
var _ = SynchronizedBeforeSuite(func() []byte {
	return []byte(BuildManager())
}, func(built []byte) {
	binary = string(built)
	LogTo(GinkgoWriter)
	whole = startCluster()
	whole.Kubectl("apply", "--server-side", "-k", filepath.Join(config, "default"))
	whole.Kubectl("apply", "--server-side", "-k", filepath.Join(config, "contract"))
	whole.writesContracts = true
	whole.Kubectl("apply", "--server-side", "-f", filepath.Join("testdata", "rabbitmqcluster.yaml"))
	whole.addScrapers()
})

// ctx ends with the test.
func ctx() context.Context { return ContextOfSpec() }
