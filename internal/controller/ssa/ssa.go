package ssa

import (
	"encoding/json"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FieldOwner owns the status that Warren writes.
const FieldOwner = client.FieldOwner("warren")

// Convert brings a status into the form of its apply configuration, which has the same fields as pointers.
func Convert(status, configuration any) error {
	text, err := json.Marshal(status)
	if err != nil {
		return fmt.Errorf("encode status: %w", err)
	}
	if err := json.Unmarshal(text, configuration); err != nil {
		return fmt.Errorf("decode status: %w", err)
	}
	return nil
}
