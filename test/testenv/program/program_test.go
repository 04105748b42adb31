package program_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/warren-mq/warren/test/testenv/program"
)

func TestRun(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	if err := program.Run(t.Context(), func(*program.Program) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("an error became %v", err)
	}
	var steps []string
	var folder string
	err := program.Run(t.Context(), func(p *program.Program) error {
		folder = p.TempDir()
		p.Cleanup(func() { steps = append(steps, "first") })
		p.Cleanup(func() { p.Fatalf("cleanup: %v", p.Context().Err()) })
		p.Cleanup(func() { steps = append(steps, "last") })
		p.Fatal("body")
		return nil
	})
	if err == nil || err.Error() != "body\ncleanup: "+context.Canceled.Error() {
		t.Errorf("two errors became %v", err)
	}
	if !slices.Equal(steps, []string{"last", "first"}) {
		t.Errorf("cleanups: %v", steps)
	}
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is there: %v", err)
	}
}
