package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// Hash identifies a set of changes regardless of their order and messages; empty for no changes.
func Hash(changes []v1alpha1.Change) (string, error) {
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
