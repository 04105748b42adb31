package brokers

import "fmt"

// OtherOperator is what messages say of an operator that this one knows nothing of.
func OtherOperator(owners string) string {
	return fmt.Sprintf("another operator works on this vhost (owner %s)", owners)
}
