package topology

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// PlanHash identifies a set of changes, whatever their order and wording; empty for no changes.
func PlanHash(changes []v1alpha1.Change) (string, error) {
	if len(changes) == 0 {
		return "", nil
	}
	lines := make([]string, len(changes))
	for i, change := range changes {
		change.Message = ""
		line, err := json.Marshal(change)
		if err != nil {
			return "", fmt.Errorf("hash plan: %w", err)
		}
		lines[i] = string(line)
	}
	slices.Sort(lines)
	encoded, err := json.Marshal(lines)
	if err != nil {
		return "", fmt.Errorf("hash plan: %w", err)
	}
	sum := sha256.Sum256(encoded)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// Shapes tells, for each object of a topology in the order of Diff's entries, a short hash of what it is wanted to be.
// An object whose shape is the one that it last was in sync with is wanted as before.
func (t Topology) Shapes() []string {
	shapes := make([]string, 0, len(t.Exchanges)+len(t.Queues)+len(t.Bindings))
	for _, exchange := range t.Exchanges {
		shapes = append(shapes, shape(exchange))
	}
	for _, queue := range t.Queues {
		shapes = append(shapes, shape(queue))
	}
	for _, binding := range t.Bindings {
		shapes = append(shapes, shape(binding))
	}
	return shapes
}

func shape(object any) string {
	text, err := json.Marshal(object)
	if err != nil {
		text = fmt.Append(nil, object)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
