package deadletter

import (
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// BenchmarkSkips measures Skips per message.
func BenchmarkSkips(b *testing.B) {
	for name, selection := range map[string]v1alpha1.DeadLetterSelector{
		"everything":              {},
		"header":                  {Headers: []v1alpha1.HeaderRequirement{{Name: "tenant", Operator: in, Values: []string{"acme"}}}},
		"expression with headers": {Expression: `headers.tenant == "acme"`},
		"expression with body":    {Expression: `body.order.country == "DE"`},
		"id":                      {IDs: []string{"aaaaaaaaaaaaaaaa"}},
	} {
		b.Run(name, func(b *testing.B) {
			selector, err := Compile(selection)
			if err != nil {
				b.Fatal(err)
			}
			rules := Rules{Source: orders, Selector: selector, MaxRedrives: 3}
			message := deadLetter()
			b.ReportAllocs()
			for b.Loop() {
				rules.Skips(orders.Read(message), at)
			}
		})
	}
}
