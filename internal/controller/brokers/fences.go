package brokers

import (
	"fmt"
	"strings"
)

// NobodyElse says what becomes of fences that their BrokerConnection leaves behind.
const NobodyElse = "they may refuse whatever is published to their queues, and nobody else takes them down, " +
	"unless a BrokerConnection to this vhost is made again"

// FencesMayStand says that fences may be left in a vhost, and how to take them down.
func FencesMayStand(vhost string) string {
	return fmt.Sprintf("policies named warren-fence-* may stand in vhost %q: %s. "+
		"List them: rabbitmqctl list_policies -p %s; take each down: %s", vhost, NobodyElse, Quoted(vhost), ClearPolicy(vhost, "NAME"))
}

// ClearPolicy is the command that takes a policy down.
func ClearPolicy(vhost, name string) string {
	return fmt.Sprintf("rabbitmqctl clear_policy -p %s %s", Quoted(vhost), name)
}

// Quoted is a text as a shell takes it for one word.
func Quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
