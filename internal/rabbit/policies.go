package rabbit

import (
	"context"

	"github.com/warren-mq/warren/internal/vhost"
)

func (m *management) putFence(ctx context.Context, f fence, definition vhost.Arguments) error {
	return m.put(ctx, m.policyPath(f.name), map[string]any{
		"pattern": f.pattern, "apply-to": "queues", "priority": f.priority, "definition": definition,
	})
}

func (m *management) policyPath(name string) string {
	return "/policies/" + escape(m.VHost) + "/" + escape(name)
}
