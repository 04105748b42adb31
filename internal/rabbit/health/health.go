// Package health holds the state of a connection. The AMQP connection and the refreshes report it, and Health shows it to users.
package health

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/vhost"
)

// Health is the state of a connection.
type Health struct {
	// Version is the lowest version among the broker's nodes, such as 4.3.6. ClusterName is the name that the management API gives
	// its cluster. These and Capabilities are empty until the first contact, and keep their values while the broker cannot be
	// reached.
	Version      string
	ClusterName  string
	Capabilities management.Capabilities
	// Cluster is the identity of the cluster to which AMQP was last shown to lead. It is empty until AMQP and the management API match.
	Cluster vhost.Cluster
	// Place identifies the vhost that AMQP leads to. It is empty while Cluster is empty.
	Place Place
	// Nodes is how many nodes the cluster has; zero if the user may not know.
	Nodes int
	// OtherInstances names the owners of connections and fences in the vhost that Config.KnownOwners does not know. While it is not
	// empty, nothing is removed.
	OtherInstances string
	// Connected: the AMQP connection is open.
	Connected bool
	// Matched: AMQP and the management API were shown to lead to one broker, so that Apply can work. MatchedByName: only the names of the
	// clusters could be compared.
	Matched       bool
	MatchedByName bool
	// SyncedAt is when the last successful refresh began; zero if there was none.
	SyncedAt time.Time
	// CurrentAt is SyncedAt, or a later time if events have shown that the snapshot was current at that time.
	CurrentAt time.Time
	// EventsSince is since when the vhost's events arrive; zero if they do not. EventsReason is why they do not arrive; empty until the
	// reason is known.
	EventsSince  time.Time
	EventsReason string
	// FailingSince is since when Err has not been nil; zero while it is nil.
	FailingSince time.Time
	// Err is why reading fails, or why there is no AMQP connection, or both; without secrets. It wraps errors of package brokererr.
	Err error
}

// Place identifies the vhost that the AMQP connection leads to, in a form that other connections can check. They do not trust the
// management API of this connection, because a tenant may run it. See ADR 0015.
type Place struct {
	// Address is host:port at which AMQP opened the vhost. It is empty with Config.ServerName, because one address can then lead to
	// several brokers.
	Address string
	// MatchQueue is the exclusive queue that AMQP has declared in the vhost. It is empty if the user may not declare it.
	MatchQueue string
	// MatchedAt is when AMQP was last matched. Since is when it was first matched with this configuration.
	MatchedAt, Since time.Time
	// Owner is Config.Owner.
	Owner string
}

// State holds the state of a connection. It logs important changes and sends notices about them.
type State struct {
	vhost  string
	log    logr.Logger
	notify func()

	mu    sync.Mutex
	parts Parts
}

// New returns the State of a connection that has not been opened. It calls notify after each change that receivers of notices need.
func New(name string, log logr.Logger, notify func()) *State {
	return &State{vhost: name, log: log, notify: notify}
}

// Parts are the states of the two halves of a connection, AMQP and the management API.
type Parts struct {
	Health      Health
	AMQP        error
	Management  error
	Mismatch    error
	AMQPVersion string
	NodeVersion string
	// Connects is how often AMQP has connected.
	Connects int
}

// Read returns the state of the connection.
func (s *State) Read() Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parts.Health
}

// ManagementUp reports whether the management API answered the last refresh, even with a refusal.
func (s *State) ManagementUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parts.Management == nil {
		return !s.parts.Health.SyncedAt.IsZero() || s.parts.Mismatch != nil
	}
	return !errors.Is(s.parts.Management, brokererr.ErrUnreachable) || errors.Is(s.parts.Management, brokererr.ErrResponseTooLarge)
}

// Reconnects returns how often AMQP has reconnected.
func (s *State) Reconnects() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.parts.Connects-1, 0)
}

// Update makes a change, and sends a notice if Health differs in more than its times.
func (s *State) Update(change func(*Parts)) {
	before, after := s.change(change)
	if before.same(after) {
		return
	}
	if text(after.Err) != text(before.Err) && after.Err != nil {
		s.log.Info("The broker connection failed", "vhost", s.vhost, "reason", after.Err.Error())
	}
	if after.Well() && !before.Well() {
		s.log.Info("Connected to the broker", "vhost", s.vhost, "version", after.Version, "cluster", after.ClusterName)
	}
	s.notify()
}

// change makes a change and returns the health before and after.
func (s *State) change(change func(*Parts)) (before, after Health) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.parts
	before = p.Health
	change(p)
	p.Health.Version = vhost.Lowest(p.NodeVersion, p.AMQPVersion)
	p.Health.Err = joined(p.Mismatch, joined(p.AMQP, p.Management))
	switch {
	case p.Health.Err == nil:
		p.Health.FailingSince = time.Time{}
	case before.Err == nil:
		p.Health.FailingSince = time.Now()
	}
	return before, p.Health
}

// Well reports whether the vhost has been read, AMQP is connected, and there is no error.
func (h Health) Well() bool { return h.Usable() && h.Connected }

// Usable reports whether the vhost has been read, there is no error, and Apply can work.
func (h Health) Usable() bool { return h.Err == nil && h.Observable() }

// Observable reports whether the vhost has been read and AMQP leads to the same broker. An error may have occurred since then.
func (h Health) Observable() bool { return h.Matched && !h.SyncedAt.IsZero() }

// OrdersEvents reports whether events arrive in the order of the changes. In a cluster, each node sends its own events, so the order is
// lost.
func (h Health) OrdersEvents() bool { return h.Nodes == 1 }

// same compares everything but times: errors by their text, and whether the vhost has been read.
func (h Health) same(other Health) bool {
	return text(h.Err) == text(other.Err) && h.Connected == other.Connected && h.Version == other.Version &&
		h.OtherInstances == other.OtherInstances && h.Matched == other.Matched && h.MatchedByName == other.MatchedByName &&
		h.Cluster == other.Cluster && h.Capabilities == other.Capabilities &&
		h.SyncedAt.IsZero() == other.SyncedAt.IsZero()
}

func joined(first, second error) error {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return fmt.Errorf("%w; %w", first, second)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
