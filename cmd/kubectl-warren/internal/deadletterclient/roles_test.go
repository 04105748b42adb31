package deadletterclient

import (
	"strings"
	"testing"
)

// No role here is a built-in role, which can read and write Secrets. A user who can create pods in the namespace gets a token of
// each ServiceAccount there.
func TestNoSubresourceNeedsABuiltInRole(t *testing.T) {
	t.Parallel()
	for subresource, name := range role {
		if !strings.HasPrefix(name, "deadletterqueue-") {
			t.Errorf("%q needs the role %s", subresource, name)
		}
	}
}
