package conformance_test

import (
	"testing"

	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/conformance"
)

func TestExpectTakesTheNewestStateThatIsNotAboveTheVersion(t *testing.T) {
	t.Parallel()
	vector := conformance.Vector{States: []conformance.State{{From: "3.12"}, {From: "4.0"}}}
	for version, want := range map[vhost.Version]string{
		{Major: 3, Minor: 10}: "",
		{Major: 3, Minor: 12}: "3.12",
		{Major: 3, Minor: 13}: "3.12",
		{Major: 4, Minor: 0}:  "4.0",
		{Major: 4, Minor: 3}:  "4.0",
	} {
		state, found := vector.Expect(version)
		if state.From != want || found != (want != "") {
			t.Errorf("%s: got %q, %t; want %q", version, state.From, found, want)
		}
	}
}

func TestVectorsAreComplete(t *testing.T) {
	t.Parallel()
	vectors := conformance.Load(t)
	if len(vectors) == 0 {
		t.Fatal("there are no vectors")
	}
	for _, vector := range vectors {
		if len(vector.ConsumerQueues) == 0 || len(vector.States) == 0 {
			t.Errorf("%s: want ConsumerQueues and states, got %d and %d", vector.Name, len(vector.ConsumerQueues), len(vector.States))
		}
	}
}
