package contract_test

import (
	"fmt"

	"github.com/warren-mq/warren/consumer/contract"
)

func ExampleParse() {
	document := `{"apiVersion": "contract.warren.dev/v1", "queue": "orders", "virtualHost": "/", "strategy": "None", "maxAttempts": 0}`
	_, err := contract.Parse([]byte(document))
	fmt.Println(err)
	// Output: contract: maxAttempts is 0 and must be at least 1
}

// A consumer without the library makes its decisions with Progress and Decide.
func ExampleContract_Decide() {
	c := contract.Default("orders")
	delivery := contract.Facts{RoutingKey: "orders", Headers: map[string]any{contract.HeaderRetryCount: int64(1)}}
	action := c.Decide(delivery, contract.Outcome{Result: contract.ResultFailed, Text: "no stock"})
	fmt.Println("attempt", c.Progress(delivery).Attempt)
	fmt.Println(action.Verb, action.Route.RoutingKey, action.Headers[contract.HeaderRetryCount])
	// Output:
	// attempt 2
	// publish orders.retry.5m 2
}
