package topology

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/vhost"
)

// The forms in which objects are hashed. The statuses of ConsumerQueues store the hashes, so a change of a form needs a new hashVersion.
type (
	exchangeForm struct {
		Name    string
		Type    v1alpha1.ExchangeType
		Role    v1alpha1.Role
		Declare bool
	}
	queueForm struct {
		Name      string
		Role      v1alpha1.Role
		Arguments vhost.Arguments
	}
	bindingForm struct {
		Source, Destination, RoutingKey string
		Arguments                       vhost.Arguments
		Role                            v1alpha1.Role
	}
)

// hashVersion is the version of the forms. Hashes of different versions never match.
const hashVersion = "v1:"

// Hash identifies the desired exchange.
func (e Exchange) Hash() string { return hash(exchangeForm(e)) }

// Hash identifies the desired queue.
func (q Queue) Hash() string { return hash(queueForm(q)) }

// Hash identifies the desired binding.
func (b Binding) Hash() string { return hash(bindingForm(b)) }

// HashOf returns the hash of an object in the topology; empty if it is not part of the topology.
func (t Topology) HashOf(id vhost.ID) string {
	for _, exchange := range t.Exchanges {
		if exchange.ID() == id {
			return exchange.Hash()
		}
	}
	for _, queue := range t.Queues {
		if queue.ID() == id {
			return queue.Hash()
		}
	}
	for _, binding := range t.Bindings {
		if binding.AtBroker().Is(id) {
			return binding.Hash()
		}
	}
	return ""
}

// Wants reports whether an object is part of the topology, whatever its type and arguments.
func (t Topology) Wants(id vhost.ID) bool {
	return slices.ContainsFunc(t.Exchanges, func(e Exchange) bool { return e.ID() == id }) ||
		slices.ContainsFunc(t.Queues, func(q Queue) bool { return q.ID() == id }) ||
		slices.ContainsFunc(t.Bindings, func(b Binding) bool { return b.AtBroker().Is(id) })
}

func hash(form any) string {
	text, err := json.Marshal(form)
	if err != nil {
		text = fmt.Append(nil, form)
	}
	sum := sha256.Sum256(text)
	return hashVersion + hex.EncodeToString(sum[:8])
}
