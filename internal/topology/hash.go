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

// The forms in which objects are hashed. Hashes are kept in the status of ConsumerQueues: a form must not change without a
// new version of the hash.
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

// hashVersion is the version of the forms. Hashes of other versions are never equal to these.
const hashVersion = "v1:"

// Hash tells how the exchange is desired.
func (e Exchange) Hash() string { return hash(exchangeForm(e)) }

// Hash tells how the queue is desired.
func (q Queue) Hash() string { return hash(queueForm(q)) }

// Hash tells how the binding is desired.
func (b Binding) Hash() string { return hash(bindingForm(b)) }

// HashOf is the hash of an object of a topology; empty if the object is not part of it.
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

// Wants says whether an object is part of a topology, whatever its type and arguments.
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
