package controller

import (
	"fmt"
	"strings"
)

const nobodyElse = "they may refuse whatever is published to their queues, and nobody else takes them down, " +
	"unless a BrokerConnection to this vhost is made again"

func fencesMayStand(vhost string) string {
	return fmt.Sprintf("policies named warren-fence-* may stand in vhost %q: %s. "+
		"List them: rabbitmqctl list_policies -p %s; take each down: %s", vhost, nobodyElse, quoted(vhost), clearPolicy(vhost, "NAME"))
}

func clearPolicy(vhost, name string) string {
	return fmt.Sprintf("rabbitmqctl clear_policy -p %s %s", quoted(vhost), name)
}

// quoted is a text as a shell takes it for one word.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
