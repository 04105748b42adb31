package deadletterqueue

import "fmt"

// Obstacle is why no messages can be taken from a dead-letter queue.
type Obstacle struct {
	Kind Kind
	// Reason is one of the reasons of conditions in the API; empty if suspended.
	Reason string
	// Message names the object, and says what is wrong.
	Message string
	// Brief says that this will be over within seconds.
	Brief bool
	// Harmless says that whoever takes messages already may go on.
	Harmless bool
}

// Kind says who has to do something about an Obstacle.
type Kind int

// The kinds of obstacles.
const (
	// Waiting: the operator or the broker has to get there first.
	Waiting Kind = iota
	// Stalled: somebody has to change something.
	Stalled
	// Suspended: somebody asked for a rest.
	Suspended
)

func waiting(reason, format string, args ...any) *Obstacle {
	return &Obstacle{Kind: Waiting, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func stalled(reason, format string, args ...any) *Obstacle {
	return &Obstacle{Kind: Stalled, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func suspended(format string, args ...any) *Obstacle {
	return &Obstacle{Kind: Suspended, Message: fmt.Sprintf(format, args...)}
}

func (o Obstacle) brief() *Obstacle {
	o.Brief, o.Harmless = true, true
	return &o
}
