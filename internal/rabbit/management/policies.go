package management

import (
	"context"
	"net/http"

	"github.com/warren-mq/warren/internal/vhost"
)

// PutPolicy creates or replaces a policy that applies to queues.
func (c *Client) PutPolicy(ctx context.Context, name, pattern string, priority float64, definition vhost.Arguments) error {
	return c.write(ctx, http.MethodPut, c.policyPath(name), map[string]any{
		"pattern": pattern, "apply-to": "queues", "priority": priority, "definition": definition,
	})
}

// DeletePolicy deletes a policy. It returns nil if the policy does not exist.
func (c *Client) DeletePolicy(ctx context.Context, name string) error {
	return c.Delete(ctx, c.policyPath(name))
}

func (c *Client) policyPath(name string) string {
	return "/policies/" + Escape(c.VHost) + "/" + Escape(name)
}
