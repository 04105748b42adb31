package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// Consequence is one effect of a recreation. For names the party that it affects.
type Consequence struct {
	For  string `json:"for"`
	Text string `json:"text"`
}

// Consequences returns what a user should know before a recreation begins. messages is the latest count of messages in the main
// queue, or -1 if it is unknown. tiers are the delay tiers that return messages to the queue by its name.
func (r Recreation) Consequences(settings topology.Recreation, messages int64, tiers []string) []Consequence {
	if r.Refusal != "" {
		return []Consequence{{"refused", r.Refusal}}
	}
	moves := MovesMessages(settings, r.Queue.Role)
	all := []Consequence{
		{"messages", r.ofMessages(moves, settings, messages)},
		{"consumers", consumersFirst(moves)},
		{"publishers", r.ofPublishers()},
		{"", fmt.Sprintf("Warren cannot list publishers to the default exchange. For about a second, they receive nacks. Without "+
			"mandatory, they can lose messages to queue %q", r.Queue.Name)},
	}
	if len(tiers) > 0 {
		all = append(all, Consequence{"retries", strings.Join(tiers, ", ") + ": their messages wait a few seconds longer"})
	}
	after := fmt.Sprintf("clients that declare queue %q must use the new arguments", r.Queue.Name)
	if moves {
		after = "moved messages have their original exchange in the header warren-exchange; delivery counts, message TTL and expiration " +
			"are reset, and from RabbitMQ 4.0 on also the counts of x-death; " + after
	}
	return append(all, Consequence{"afterwards", after})
}

// consumersFirst describes what to do about the consumers. Warren can pause only consumers of a queue whose messages it moves.
func consumersFirst(moves bool) string {
	const scale = "scale them to zero first. Start them again when status.recreation.consumersMayStart is true or the condition " +
		"RecreationRequired is False"
	if moves {
		return "Warren asks them to pause if all of them follow the contract of spec.contract; otherwise " + scale
	}
	return scale
}

func (r Recreation) ofMessages(moves bool, settings topology.Recreation, messages int64) string {
	switch {
	case !moves:
		return "the queue must have no ready messages first"
	case messages < 0:
		return fmt.Sprintf("up to %d ready messages are moved to another queue and back", settings.MaxReady)
	}
	return fmt.Sprintf("%d when Warren counted them last; up to %d ready messages are moved to another queue and back", messages,
		settings.MaxReady)
}

func (r Recreation) ofPublishers() string {
	var exchanges []string
	for _, binding := range r.Bindings {
		exchanges = append(exchanges, fmt.Sprintf("%q", binding.Source))
	}
	slices.Sort(exchanges)
	exchanges = slices.Compact(exchanges)
	if len(exchanges) == 0 {
		return "no binding leads to the queue"
	}
	return "through exchange " + strings.Join(exchanges, ", ") + ": not affected"
}

// TiersReturningTo returns the delay tiers of a topology that return messages to a queue by its name.
func TiersReturningTo(queue string, entries []v1alpha1.TopologyEntry, observed vhost.Observed) []string {
	var tiers []string
	for _, entry := range entries {
		arguments := observed.Queues[entry.Name].Arguments
		returns := vhost.SameValue(arguments[vhost.ArgDeadLetterExchange], "") &&
			vhost.SameValue(arguments[vhost.ArgDeadLetterRoutingKey], queue)
		if entry.Kind == v1alpha1.KindQueue && entry.Role == v1alpha1.RoleDelayTier && returns {
			tiers = append(tiers, entry.Name)
		}
	}
	slices.Sort(tiers)
	return tiers
}
