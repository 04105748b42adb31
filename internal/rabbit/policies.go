package rabbit

import (
	"context"

	"github.com/warren-mq/warren/internal/vhost"
)

// putPolicy writes a policy for queues.
func (m *management) putPolicy(ctx context.Context, name, pattern string, priority int, definition vhost.Arguments) error {
	return m.put(ctx, m.policyPath(name), map[string]any{
		"pattern": pattern, "apply-to": "queues", "priority": priority, "definition": definition,
	})
}

// deletePolicy deletes a policy; that there is none is no error.
func (m *management) deletePolicy(ctx context.Context, name string) error {
	return m.delete(ctx, m.policyPath(name))
}

func (m *management) policyPath(name string) string {
	return "/policies/" + escape(m.VHost) + "/" + escape(name)
}
