package vhost

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCluster(t *testing.T) {
	t.Parallel()
	strong := Cluster{ID: "1", Name: "rabbit", Endpoint: "blue:5672"}
	weak := Cluster{Name: "rabbit", Endpoint: "blue:5672"}
	named := Cluster{Name: "rabbit"}
	type answers struct{ mayBe, is bool }
	for name, test := range map[string]struct {
		recorded, now Cluster
		want          answers
	}{
		"strong and the same":             {strong, strong, answers{true, true}},
		"strong and renamed":              {strong, Cluster{ID: "1", Name: "hare", Endpoint: "blue:5672"}, answers{true, true}},
		"strong and moved":                {strong, Cluster{ID: "1", Name: "rabbit", Endpoint: "green:5672"}, answers{true, true}},
		"strong and another of that name": {strong, Cluster{ID: "2", Name: "rabbit", Endpoint: "blue:5672"}, answers{false, false}},

		"the ID becomes readable":                  {weak, strong, answers{true, true}},
		"the ID becomes readable, elsewhere":       {Cluster{Name: "rabbit", Endpoint: "green:5672"}, strong, answers{true, false}},
		"the ID is readable no longer":             {strong, weak, answers{true, true}},
		"the ID is readable no longer, elsewhere":  {strong, Cluster{Name: "rabbit", Endpoint: "green:5672"}, answers{true, false}},
		"the ID is readable no longer, other name": {strong, Cluster{Name: "hare", Endpoint: "blue:5672"}, answers{false, false}},

		"weak and the same":  {weak, weak, answers{true, true}},
		"weak and renamed":   {weak, Cluster{Name: "hare", Endpoint: "blue:5672"}, answers{false, false}},
		"weak and elsewhere": {weak, Cluster{Name: "rabbit", Endpoint: "green:5672"}, answers{true, false}},

		"a name is no proof":                     {named, strong, answers{true, false}},
		"a name is no proof, weak now":           {named, weak, answers{true, false}},
		"a name is no proof, not even to itself": {named, named, answers{true, false}},
		"another name":                           {named, Cluster{ID: "1", Name: "hare", Endpoint: "blue:5672"}, answers{false, false}},

		"nothing is known":        {Cluster{}, Cluster{}, answers{false, false}},
		"nothing is recorded":     {Cluster{}, strong, answers{false, false}},
		"an endpoint is no proof": {Cluster{Endpoint: "blue:5672"}, Cluster{Endpoint: "blue:5672"}, answers{false, false}},
	} {
		got := answers{test.now.MayBe(test.recorded), test.now.Is(test.recorded)}
		if got != test.want {
			t.Errorf("%s: %+v, should be %+v", name, got, test.want)
		}
		if test.recorded.MayBe(test.now) != got.mayBe || test.recorded.Is(test.now) != got.is {
			t.Errorf("%s: the answer depends on which is asked", name)
		}
	}
}

func TestClusterKeepsAnIDThatCannotBeReadNow(t *testing.T) {
	t.Parallel()
	strong := Cluster{ID: "1", Name: "rabbit", Endpoint: "blue:5672"}
	weak := Cluster{Name: "rabbit", Endpoint: "blue:5672"}
	elsewhere := Cluster{Name: "rabbit", Endpoint: "green:5672"}
	other := Cluster{ID: "2", Name: "rabbit", Endpoint: "blue:5672"}
	for name, test := range map[string]struct{ recorded, now, want Cluster }{
		"the tag was removed":       {strong, weak, strong},
		"it may be another cluster": {strong, elsewhere, elsewhere},
		"it is another cluster":     {strong, other, other},
		"the tag was given":         {weak, strong, strong},
		"nothing is recorded":       {Cluster{}, weak, weak},
	} {
		if difference := cmp.Diff(test.want, test.now.Keeping(test.recorded)); difference != "" {
			t.Errorf("%s (-want +got):\n%s", name, difference)
		}
	}
}

func TestClusterAsOneText(t *testing.T) {
	t.Parallel()
	for _, identity := range []Cluster{
		{},
		{Name: "rabbit@a"},
		{ID: "sha256:0123", Name: `a "quoted" name`, Endpoint: "[fd00::1]:5672"},
	} {
		if difference := cmp.Diff(identity, ClusterOf(identity.Key())); difference != "" {
			t.Error(difference)
		}
	}
	for _, text := range []string{"rabbit@a", "12", "{}", `{"name": 12, "id": "1"}`} {
		if got := ClusterOf(text); got.Known() {
			t.Errorf("%s: %+v", text, got)
		}
	}
}
