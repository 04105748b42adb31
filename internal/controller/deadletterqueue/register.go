package deadletterqueue

import (
	"fmt"
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/ownership"
)

// Turn is a queue that one user at a time takes messages out of.
type Turn struct {
	Connection client.ObjectKey
	Location   ownership.Location
	Queue      string
}

// isAt reports whether two turns may be at the same queue: connections may spell the way to a cluster differently. Turns of two
// namespaces are at the same queue only if AMQP was let in at the same address, because another tenant can forge the rest.
func (t Turn) isAt(other Turn) bool {
	here, there := t.Location.Cluster, other.Location.Cluster
	if t.Connection.Namespace != other.Connection.Namespace && here.Endpoint != there.Endpoint {
		return false
	}
	return here.MayBe(there) && t.Location.VHost == other.Location.VHost && t.Queue == other.Queue
}

// User is a Redrive or a Purge, or a request of the dead-letter API, whose Kind is empty.
type User struct {
	Kind string
	client.ObjectKey
}

// Uses says what a user does, to a reader of one namespace: a job of another one is not named.
func (u User) Uses(queue, namespace string) string {
	switch {
	case u.Kind == "":
		return fmt.Sprintf("a request of the dead-letter API looks at queue %q", queue)
	case u.Namespace != namespace:
		return fmt.Sprintf("a %s in another namespace takes messages of queue %q", u.Kind, queue)
	}
	return fmt.Sprintf("%s %q takes messages of queue %q", u.Kind, u.Name, queue)
}

// Register has everybody in this process who takes messages out of dead-letter queues, in the order in which they came. The first at a
// queue has the turn, and the others wait: messages that one holds are hidden from the others. The zero Register is empty.
type Register struct {
	mu     sync.Mutex
	places []*Place
}

// Place is the place of a user in a Register, until Leave is called.
type Place struct {
	register *Register
	turn     Turn
	user     User
	granted  func()
	waits    bool
}

// Join gives a user the last place at a queue. If the user has to wait, granted is called when the turn has come.
func (r *Register) Join(user User, turn Turn, granted func()) *Place {
	r.mu.Lock()
	defer r.mu.Unlock()
	place := &Place{register: r, turn: turn, user: user, granted: granted}
	place.waits = r.first(place) != nil
	r.places = append(r.places, place)
	return place
}

// first is the place in front of another one that has the turn at its queue, or waits for it longest; nil if there is none.
func (r *Register) first(behind *Place) *Place {
	for _, place := range r.places {
		switch {
		case place == behind:
			return nil
		case place.turn.isAt(behind.turn):
			return place
		}
	}
	return nil
}

// Turn is the turn that the user waits for, or has.
func (p *Place) Turn() Turn { return p.turn }

// Waits returns for whom the user waits; false if the user has the turn.
func (p *Place) Waits() (user User, waits bool) {
	p.register.mu.Lock()
	defer p.register.mu.Unlock()
	if first := p.register.first(p); first != nil {
		return first.user, true
	}
	return User{}, false
}

// Leave gives the place up, and tells those whose turn has come. It may be called again.
func (p *Place) Leave() {
	for _, next := range p.register.remove(p) {
		next.granted()
	}
}

// remove removes a place, and returns those that have the turn now and had to wait before.
func (r *Register) remove(place *Place) (granted []*Place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.places = slices.DeleteFunc(r.places, func(each *Place) bool { return each == place })
	for _, each := range r.places {
		if each.waits && r.first(each) == nil {
			each.waits = false
			granted = append(granted, each)
		}
	}
	return granted
}
