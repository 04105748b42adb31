package brokers

import (
	"fmt"
	"strings"
)

// FenceWarning warns about fences whose BrokerConnection is gone.
const FenceWarning = "they may refuse all messages for their queues, and only Warren removes them, once it has a " +
	"BrokerConnection to this vhost again"

// FencesMayStand warns that fences may be left in a vhost, with the commands that remove them.
func FencesMayStand(vhost string) string {
	return fmt.Sprintf("policies named warren-fence-* and warren-recreate-* may exist in vhost %q: %s. "+
		"List them: rabbitmqctl list_policies -p %s; remove each: %s", vhost, FenceWarning, Quoted(vhost), ClearPolicy(vhost, "NAME"))
}

// ClearPolicy returns the command that removes a policy.
func ClearPolicy(vhost, name string) string {
	return fmt.Sprintf("rabbitmqctl clear_policy -p %s %s", Quoted(vhost), name)
}

// Quoted quotes a text as one word for a shell.
func Quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// OtherInstance describes another Warren that works on the vhost.
func OtherInstance(owners string) string {
	return fmt.Sprintf("another instance works on this vhost (owner %s)", owners)
}
