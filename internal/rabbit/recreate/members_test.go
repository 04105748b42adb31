package recreate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// membersAPI answers about the members of a queue: the next answer to each request, and the last one to all others.
type membersAPI struct {
	API

	answers [][]management.Member
	err     error
}

func (a *membersAPI) QuorumStatus(context.Context, string) ([]management.Member, error) {
	answer := a.answers[0]
	if len(a.answers) > 1 {
		a.answers = a.answers[1:]
	}
	return answer, a.err
}

func TestMissingMember(t *testing.T) {
	t.Parallel()
	with := func(state any) []management.Member {
		return []management.Member{{Node: "a", State: "leader"}, {Node: "b", State: state}}
	}
	for name, test := range map[string]struct {
		api  membersAPI
		want string
	}{
		"all members run":                {api: membersAPI{answers: [][]management.Member{with("follower")}}},
		"a member does not run":          {membersAPI{answers: [][]management.Member{with("noproc")}}, "b"},
		"a member starts late":           {api: membersAPI{answers: [][]management.Member{with("noproc"), with("follower")}}},
		"the node of the member is down": {api: membersAPI{answers: [][]management.Member{with(map[string]any{"nodedown": "b"})}}},
		"RabbitMQ does not answer":       {api: membersAPI{answers: [][]management.Member{nil}, err: errors.New("not found")}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, err := New(Settings{}, nil, nil, nil, &test.api).missingMember(t.Context(), "orders")
				topologytest.Equal(t, "error", nil, err)
				topologytest.Equal(t, "node", test.want, got)
			})
		})
	}
}
