package vhost_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func equal[T any](t *testing.T, what string, want, got T, options ...cmp.Option) {
	t.Helper()
	if difference := cmp.Diff(want, got, options...); difference != "" {
		t.Errorf("%s (-want +got):\n%s", what, difference)
	}
}
