package brokers

import (
	"fmt"
	"strings"
)

// FenceWarning warns about fences whose BrokerConnection is gone. A command follows it.
const FenceWarning = "They can make their queues refuse all messages. Warren removes them once a BrokerConnection leads to this vhost " +
	"again. To remove them by hand, run"

// FencesMayStand warns that fences may be left in a vhost, with the commands that remove them.
func FencesMayStand(vhost string) string {
	return fmt.Sprintf("Policies named warren-fence-* and warren-recreate-* may exist in vhost %q. %s rabbitmqctl list_policies -p %s, "+
		"then for each of them %s", vhost, FenceWarning, Quoted(vhost), ClearPolicy(vhost, "NAME"))
}

// ClearPolicy returns the command that removes a policy.
func ClearPolicy(vhost, name string) string {
	return fmt.Sprintf("rabbitmqctl clear_policy -p %s %s", Quoted(vhost), name)
}

// Quoted quotes a text as one word for a shell.
func Quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// OtherInstance describes another Warren that works on the vhost.
func OtherInstance(owners string) string {
	return fmt.Sprintf("another instance of Warren works on this vhost (owner %s)", owners)
}
