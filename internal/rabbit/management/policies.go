package management

import (
	"context"
	"net/http"

	"github.com/warren-mq/warren/internal/vhost"
)

// PutPolicy creates or replaces a policy that applies to queues.
func (m *Client) PutPolicy(ctx context.Context, name, pattern string, priority int, definition vhost.Arguments) error {
	return m.write(ctx, http.MethodPut, m.policyPath(name), map[string]any{
		"pattern": pattern, "apply-to": "queues", "priority": priority, "definition": definition,
	})
}

// DeletePolicy deletes a policy. It returns nil if the policy does not exist.
func (m *Client) DeletePolicy(ctx context.Context, name string) error {
	return m.Delete(ctx, m.policyPath(name))
}

func (m *Client) policyPath(name string) string {
	return "/policies/" + Escape(m.VHost) + "/" + Escape(name)
}
