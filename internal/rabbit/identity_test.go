package rabbit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIdentity(t *testing.T) {
	t.Parallel()
	strong := Identity{ID: "1", Name: "rabbit", Endpoint: "blue:5672"}
	weak := Identity{Name: "rabbit", Endpoint: "blue:5672"}
	old := Identity{Name: "rabbit"}
	type answers struct{ mayBe, is, continues bool }
	for name, test := range map[string]struct {
		recorded, now Identity
		want          answers
	}{
		"strong and the same":             {strong, strong, answers{true, true, true}},
		"strong and renamed":              {strong, Identity{ID: "1", Name: "hare", Endpoint: "blue:5672"}, answers{true, true, true}},
		"strong and moved":                {strong, Identity{ID: "1", Name: "rabbit", Endpoint: "green:5672"}, answers{true, true, true}},
		"strong and another of that name": {strong, Identity{ID: "2", Name: "rabbit", Endpoint: "blue:5672"}, answers{false, false, false}},

		"the ID becomes readable":                  {weak, strong, answers{true, true, true}},
		"the ID becomes readable, elsewhere":       {Identity{Name: "rabbit", Endpoint: "green:5672"}, strong, answers{true, false, false}},
		"the ID is readable no longer":             {strong, weak, answers{true, true, true}},
		"the ID is readable no longer, elsewhere":  {strong, Identity{Name: "rabbit", Endpoint: "green:5672"}, answers{true, false, false}},
		"the ID is readable no longer, other name": {strong, Identity{Name: "hare", Endpoint: "blue:5672"}, answers{false, false, false}},

		"weak and the same":  {weak, weak, answers{true, true, true}},
		"weak and renamed":   {weak, Identity{Name: "hare", Endpoint: "blue:5672"}, answers{false, false, false}},
		"weak and elsewhere": {weak, Identity{Name: "rabbit", Endpoint: "green:5672"}, answers{true, false, false}},

		"recorded by an older version":               {old, strong, answers{true, false, true}},
		"recorded by an older version, weak now":     {old, weak, answers{true, false, true}},
		"recorded by an older version, another name": {old, Identity{ID: "1", Name: "hare", Endpoint: "blue:5672"}, answers{false, false, false}},

		"nothing is known":        {Identity{}, Identity{}, answers{false, false, false}},
		"nothing is recorded":     {Identity{}, strong, answers{false, false, false}},
		"an endpoint is no proof": {Identity{Endpoint: "blue:5672"}, Identity{Endpoint: "blue:5672"}, answers{false, false, false}},
	} {
		got := answers{test.now.MayBe(test.recorded), test.now.Is(test.recorded), test.now.Continues(test.recorded)}
		if got != test.want {
			t.Errorf("%s: %+v, should be %+v", name, got, test.want)
		}
		if test.recorded.MayBe(test.now) != got.mayBe || test.recorded.Is(test.now) != got.is {
			t.Errorf("%s: the answer depends on which is asked", name)
		}
	}
}

func TestIdentityKeepsAnIDThatCannotBeReadNow(t *testing.T) {
	t.Parallel()
	strong := Identity{ID: "1", Name: "rabbit", Endpoint: "blue:5672"}
	weak := Identity{Name: "rabbit", Endpoint: "blue:5672"}
	elsewhere := Identity{Name: "rabbit", Endpoint: "green:5672"}
	other := Identity{ID: "2", Name: "rabbit", Endpoint: "blue:5672"}
	for name, test := range map[string]struct{ recorded, now, want Identity }{
		"the tag was taken away":    {strong, weak, strong},
		"it may be another cluster": {strong, elsewhere, elsewhere},
		"it is another cluster":     {strong, other, other},
		"the tag was given":         {weak, strong, strong},
		"nothing is recorded":       {Identity{}, weak, weak},
	} {
		if difference := cmp.Diff(test.want, test.now.Keeping(test.recorded)); difference != "" {
			t.Errorf("%s (-want +got):\n%s", name, difference)
		}
	}
}

func TestIdentityAsOneText(t *testing.T) {
	t.Parallel()
	for _, identity := range []Identity{
		{},
		{Name: "rabbit@a"},
		{ID: hashedID("rabbitmq-cluster-id-x"), Name: `a "quoted" name`, Endpoint: "[fd00::1]:5672"},
	} {
		if difference := cmp.Diff(identity, IdentityOf(identity.Key())); difference != "" {
			t.Error(difference)
		}
	}
	for text, want := range map[string]Identity{"rabbit@a": {Name: "rabbit@a"}, "12": {Name: "12"}, "{}": {Name: "{}"}} {
		if got := IdentityOf(text); got != want {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

func TestEndpointOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"amqp://MQ.shop.svc": "mq.shop.svc:5672", "amqps://mq": "mq:5671", "amqp://mq:5673": "mq:5673", "amqp://[FD00::1]": "[fd00::1]:5672",
		"http://mq": "mq:80", "https://gate/rabbit": "gate:443",
	} {
		if got := endpointOf(text); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}
