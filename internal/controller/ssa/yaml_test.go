package ssa

import (
	"encoding/json"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	ac "github.com/warren-mq/warren/api/v1alpha1/applyconfiguration/api/v1alpha1"
)

// What is applied is read as YAML, and must be what was meant.
func TestStatusIsYAML(t *testing.T) {
	t.Parallel()
	for r := range rune(0x10010) {
		if r > 0x300 && r < 0x2000 || r > 0x2100 && r < 0xfe00 {
			continue // letters, and surrogates, which are no characters
		}
		name := "a" + string(r) + "b"
		entry := ac.TopologyEntry().WithKind(v1alpha1.KindQueue).WithName(name)
		applied := ac.ConsumerQueue("orders", "shop").WithStatus(ac.ConsumerQueueStatus().WithTopology(entry))
		text, err := json.Marshal(YAMLSafe{ApplyConfiguration: applied})
		if err != nil {
			t.Fatal(err)
		}
		read := v1alpha1.ConsumerQueue{}
		if err := yaml.Unmarshal(text, &read); err != nil {
			t.Fatalf("U+%04X: %v", r, err)
		}
		if len(read.Status.Topology) != 1 || read.Status.Topology[0].Name != name {
			t.Fatalf("U+%04X: got %+v", r, read.Status.Topology)
		}
	}
}
