package definitions_test

import (
	"encoding/json"
	"testing"

	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/definitions"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/conformance"
)

// Import never panics, and each ConsumerQueue has a topology. If no difference is reported, file and topologies have the same
// queues.
func FuzzImport(f *testing.F) {
	for _, vector := range conformance.Load(f) {
		for _, state := range vector.States {
			content, err := json.Marshal(fileOf(f, state))
			if err != nil {
				f.Fatal(err)
			}
			f.Add(content)
		}
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		file, err := definitions.Parse(content)
		if err != nil {
			return
		}
		for _, name := range file.VHosts() {
			for _, version := range []vhost.Version{topologytest.V310, topologytest.V43} {
				wantAllTold(t, file, name, version)
			}
		}
	})
}

func wantAllTold(t *testing.T, file definitions.File, name string, version vhost.Version) {
	t.Helper()
	queues, findings := definitions.Import(file, definitions.Options{VHost: name, Version: version})
	given := map[string]string{}
	for _, queue := range file.Queues {
		if queue.VHost == name {
			given[queue.Name] = queue.Arguments.JSON()
		}
	}
	for _, finding := range findings {
		if finding.Kind == definitions.Differs {
			return
		}
	}
	for _, cq := range queues {
		desired, err := topology.Desired(cq, version)
		if err != nil {
			t.Fatalf("ConsumerQueue %q: %v", cq.Name, err)
		}
		for _, queue := range desired.Queues {
			if arguments, exists := given[queue.Name]; !exists || arguments != queue.Arguments.JSON() {
				t.Errorf("queue %q is %s in the file (%t), and %s as imported", queue.Name, arguments, exists, queue.Arguments.JSON())
			}
		}
	}
}
