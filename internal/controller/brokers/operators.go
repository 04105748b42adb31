package brokers

import "fmt"

// OtherOperator describes another Warren that works on the vhost.
func OtherOperator(owners string) string {
	return fmt.Sprintf("another instance works on this vhost (owner %s)", owners)
}
