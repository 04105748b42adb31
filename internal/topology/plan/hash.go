package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// Hash identifies a set of changes regardless of their order and messages; empty for no changes.
func Hash(changes []v1alpha1.Change) string {
	if len(changes) == 0 {
		return ""
	}
	lines := make([]string, len(changes))
	for i, change := range changes {
		change.Message = ""
		line, _ := json.Marshal(change) // a Change has only strings
		lines[i] = string(line)
	}
	slices.Sort(lines)
	encoded, _ := json.Marshal(lines)
	sum := sha256.Sum256(encoded)
	return "sha256:" + hex.EncodeToString(sum[:])
}
