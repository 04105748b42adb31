package deadletter

import "testing"

// BenchmarkJudge is what a selection costs for each message.
func BenchmarkJudge(b *testing.B) {
	for name, selection := range map[string]Selection{
		"everything":         {},
		"header":             {Headers: []HeaderRequirement{{"tenant", In, []string{"acme"}}}},
		"where with headers": {Where: `headers.tenant == "acme"`},
		"where with body":    {Where: `body.order.country == "DE"`},
		"id":                 {IDs: []string{"aaaaaaaaaaaaaaaa"}},
	} {
		b.Run(name, func(b *testing.B) {
			selector, err := Compile(selection)
			if err != nil {
				b.Fatal(err)
			}
			rules := Rules{Source: orders, Selector: selector, MaxRedrives: 3}
			message := letter()
			b.ReportAllocs()
			for b.Loop() {
				rules.Skips(orders.Read(message), at)
			}
		})
	}
}
