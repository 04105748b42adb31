package rabbit

import (
	"fmt"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/vhost"
)

// Health is how a connection fares.
type Health struct {
	// Version is the lowest version among the broker's nodes, such as 4.3.6; ClusterName is the name of its cluster, and
	// Cluster its identity. These, and Capabilities, are empty until the first contact and stay what they were while the
	// broker cannot be reached.
	Version      string
	ClusterName  string
	Cluster      vhost.Cluster
	Capabilities management.Capabilities
	// Operators are the owners of connections and fences in the vhost that Config.Known does not know. While there are any,
	// nothing is removed.
	Operators string
	// Connected: the AMQP connection is open.
	Connected bool
	// Matched: AMQP and the management API were shown to lead to one broker, so Apply can work. MatchedByName: nothing but
	// the names of the clusters could be compared.
	Matched       bool
	MatchedByName bool
	// SyncedAt is when the last successful look began; zero if there was none.
	SyncedAt time.Time
	// FailingSince is when the trouble began that Err tells; zero while all is well.
	FailingSince time.Time
	// Err is why looking fails, or why there is no AMQP connection, or both; without secrets. It wraps the sentinels of
	// this package.
	Err error
}

// state gathers what the two halves of a connection, AMQP and the management API, say of themselves.
type state struct {
	mu          sync.Mutex
	health      Health
	amqp        error
	management  error
	mismatch    error
	amqpVersion string
	nodeVersion string
}

func (s *state) read() Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health
}

// change applies a change and returns the health before and after.
func (s *state) change(apply func(*state)) (before, after Health) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.health
	apply(s)
	s.health.Version = vhost.Lowest(s.nodeVersion, s.amqpVersion)
	s.health.Err = joined(s.mismatch, joined(s.amqp, s.management))
	switch {
	case s.health.Err == nil:
		s.health.FailingSince = time.Time{}
	case before.Err == nil:
		s.health.FailingSince = time.Now()
	}
	return before, s.health
}

// well: there was a look, and there is nothing to complain about.
func (h Health) well() bool { return h.Usable() && h.Connected }

// Usable says that there was a look, nothing is known to be wrong, and Apply can work.
func (h Health) Usable() bool { return h.Err == nil && h.Matched && !h.SyncedAt.IsZero() }

// same compares all but the times: errors by what they say, and whether there was a look.
func (h Health) same(other Health) bool {
	return text(h.Err) == text(other.Err) && h.Connected == other.Connected && h.Version == other.Version &&
		h.Operators == other.Operators && h.Matched == other.Matched && h.MatchedByName == other.MatchedByName &&
		h.Cluster == other.Cluster && h.Capabilities == other.Capabilities &&
		h.SyncedAt.IsZero() == other.SyncedAt.IsZero()
}

func joined(amqp, management error) error {
	switch {
	case amqp == nil:
		return management
	case management == nil:
		return amqp
	}
	return fmt.Errorf("%w; %w", amqp, management)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
