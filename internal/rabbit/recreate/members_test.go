package recreate

import (
	"context"
	"testing"
	"testing/synctest"

	"k8s.io/utils/ptr"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// membersAPI answers about the members of a queue, and about the nodes.
type membersAPI struct {
	API

	info    *management.QueueInfo
	nodes   []management.Node
	refused error
}

func (a membersAPI) QueueInfo(context.Context, string, string) (*management.QueueInfo, error) {
	return a.info, nil
}

func (a membersAPI) Nodes(context.Context, string) ([]management.Node, error) {
	return a.nodes, a.refused
}

func TestMissingMember(t *testing.T) {
	t.Parallel()
	three := []string{"a", "b", "c"}
	withoutB := &management.QueueInfo{Members: three, Online: []string{"a", "c"}}
	nodes := func(bRuns bool) []management.Node {
		return []management.Node{{Name: "a", Running: ptr.To(true)}, {Name: "b", Running: &bRuns}, {Name: "c", Running: ptr.To(true)}}
	}
	for name, test := range map[string]struct {
		api  membersAPI
		want string
	}{
		"all members run":                       {api: membersAPI{info: &management.QueueInfo{Members: three, Online: three}}},
		"a member does not run":                 {membersAPI{info: withoutB, nodes: nodes(true)}, "b"},
		"the node of the member is down":        {api: membersAPI{info: withoutB, nodes: nodes(false)}},
		"the user may not list nodes":           {api: membersAPI{info: withoutB, refused: brokererr.ErrAccessRefused}},
		"the queue was deleted in the meantime": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, err := New(Settings{}, nil, nil, nil, test.api).missingMember(t.Context(), "orders")
				topologytest.Equal(t, "error", nil, err)
				topologytest.Equal(t, "node", test.want, got)
			})
		})
	}
}
