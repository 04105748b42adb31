package rabbit

import "context"

// lift ends a fence, in a way that lets publishers go on which it held up if it was closed; in between, take takes out
// the sentinels. What fails leaves the policy, which is the record that there is something left to do.
func (c *Connection) lift(ctx context.Context, f fence, closed bool, take func() error) error {
	if closed {
		if err := c.writing.putPolicy(ctx, f.name, f.pattern, f.priority, f.open()); err != nil {
			return err
		}
	}
	if closed && f.drops { // else the queue could become full in the meantime, and nobody would be told when it is no longer
		if err := c.writing.putPolicy(ctx, f.name, f.pattern, f.priority, f.harmless()); err != nil {
			return err
		}
	}
	if err := take(); err != nil {
		return err
	}
	if err := c.writing.deletePolicy(ctx, f.name); err != nil {
		return err
	}
	c.store.write(func(s *snapshot) bool { return s.dropFence(f.name) })
	return nil
}
