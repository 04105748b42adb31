package snapshot

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/vhost"
)

// Snapshot is a vhost at one moment, with indexes. It never changes a slice or arguments that a caller has observed: it appends, or
// replaces them. Store guards the maps.
type Snapshot struct {
	exchanges    map[string]vhost.Exchange
	Queues       map[string]vhost.Queue
	bindingsTo   map[string][]vhost.Binding // by destination queue
	BindingsFrom map[string][]vhost.Binding // by source exchange
	Policies     []vhost.Policy
	Fences       []vhost.Policy  // policies that deletions set; Policies does not contain them
	UnderWay     map[string]bool // names of the fences that deletions of this process needed after the refresh
	left         []vhost.Policy  // the other fences; see fences.go
	Cluster      string
	Room         *management.Room // the memory of this snapshot; nil in tests
	deadLetters  deadLetterIndex
	alternates   alternateCache
}

// New returns the snapshot of an empty vhost.
func New() *Snapshot {
	return &Snapshot{
		exchanges:    make(map[string]vhost.Exchange),
		Queues:       make(map[string]vhost.Queue),
		bindingsTo:   make(map[string][]vhost.Binding),
		BindingsFrom: make(map[string][]vhost.Binding),
	}
}

// Free releases the memory of a snapshot that no caller reads any more. It does nothing on nil.
func (s *Snapshot) Free() {
	if s != nil {
		s.Room.Free()
	}
}

// PutExchange adds an exchange unless one with that name exists, and reports whether it added the exchange. A declaration that the broker
// accepts never changes an existing object, even if an argument differs that the broker does not compare.
func (s *Snapshot) PutExchange(name string, exchange vhost.Exchange) bool {
	if _, exists := s.exchanges[name]; exists {
		return false
	}
	s.exchanges[name] = exchange
	s.indexExchange(name)
	return true
}

// Exchange returns the exchange with a name, and whether it exists.
func (s *Snapshot) Exchange(name string) (vhost.Exchange, bool) {
	exchange, exists := s.exchanges[name]
	return exchange, exists
}

// PutQueue is PutExchange for queues.
func (s *Snapshot) PutQueue(name string, queue vhost.Queue) bool {
	if _, exists := s.Queues[name]; exists {
		return false
	}
	s.Queues[name] = queue
	s.deadLetters.addQueue(name, queue)
	return true
}

// PutBinding adds a binding unless an equal one exists, and reports whether it added the binding.
func (s *Snapshot) PutBinding(binding vhost.Binding) bool {
	same := func(other vhost.Binding) bool { return sameBinding(binding, other) }
	known := s.bindingsTo[binding.Destination]
	if binding.ToExchange {
		known = s.BindingsFrom[binding.Source]
	}
	if slices.ContainsFunc(known, same) {
		return false
	}
	s.addBinding(binding)
	if binding.ToExchange {
		s.deadLetters.setForwarding(binding.Source, s.BindingsFrom[binding.Source])
	}
	return true
}

func (s *Snapshot) addBinding(binding vhost.Binding) {
	s.BindingsFrom[binding.Source] = append(s.BindingsFrom[binding.Source], binding)
	if !binding.ToExchange {
		s.bindingsTo[binding.Destination] = append(s.bindingsTo[binding.Destination], binding)
	}
}

// sort orders bindings and policies, so that the order does not depend on how they were read.
func (s *Snapshot) sort() {
	for _, index := range []map[string][]vhost.Binding{s.bindingsTo, s.BindingsFrom} {
		for _, bindings := range index {
			slices.SortFunc(bindings, CompareBindings)
		}
	}
	slices.SortFunc(s.Fences, func(a, b vhost.Policy) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Policies, func(a, b vhost.Policy) int {
		if a.Operator != b.Operator {
			return cmp.Compare(asInt(a.Operator), asInt(b.Operator))
		}
		return cmp.Compare(a.Name, b.Name)
	})
}

func asInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// CompareBindings orders bindings by source, destination, kind of destination, routing key and arguments.
func CompareBindings(a, b vhost.Binding) int {
	order := cmp.Or(
		cmp.Compare(a.Source, b.Source), cmp.Compare(a.Destination, b.Destination),
		cmp.Compare(asInt(a.ToExchange), asInt(b.ToExchange)), cmp.Compare(a.RoutingKey, b.RoutingKey))
	if order != 0 || len(a.Arguments)+len(b.Arguments) == 0 {
		return order
	}
	return cmp.Compare(a.Arguments.JSON(), b.Arguments.JSON())
}

// keepPatterns reuses the compiled patterns of an older snapshot.
func (s *Snapshot) keepPatterns(old *Snapshot) {
	known := make(map[string]vhost.Pattern, len(old.Policies))
	for _, policy := range old.Policies {
		known[policy.Pattern.String()] = policy.Pattern
	}
	for i := range s.Policies {
		if pattern, same := known[s.Policies[i].Pattern.String()]; same {
			s.Policies[i].Pattern = s.Policies[i].Pattern.Reuse(pattern)
		}
	}
}

// BindingsTo lists the bindings of a queue.
func (s *Snapshot) BindingsTo(queue string) []vhost.Binding { return slices.Clip(s.bindingsTo[queue]) }

func (s *Snapshot) observe(names vhost.Selection) vhost.Observed {
	observed := vhost.Observed{
		Exchanges:    make(map[string]vhost.Exchange, len(names.Exchanges)),
		Queues:       make(map[string]vhost.Queue, len(names.Queues)),
		BindingsTo:   make(map[string][]vhost.Binding, len(names.Queues)),
		BindingsFrom: map[string][]vhost.Binding{},
		Policies:     s.Policies,
		Fences:       observedFences(s.left),
		Cluster:      s.Cluster,
	}
	for _, name := range names.Exchanges {
		s.copyExchange(name, observed)
	}
	for _, name := range names.Queues {
		if queue, exists := s.Queues[name]; exists {
			observed.Queues[name] = queue
		}
		if bindings := s.bindingsTo[name]; len(bindings) > 0 {
			observed.BindingsTo[name] = slices.Clip(bindings)
		}
	}
	for _, name := range names.BindingsFrom {
		if bindings := s.BindingsFrom[name]; len(bindings) > 0 {
			observed.BindingsFrom[name] = slices.Clip(bindings)
		}
	}
	if names.FollowFrom != "" || names.IncludeDeadLetterSources {
		observed.Alternates = map[string][]string{}
	}
	if names.FollowFrom != "" {
		s.follow(names.FollowFrom, observed)
	}
	if names.IncludeDeadLetterSources {
		observed.DeadLetterRoutes = s.addDeadLetterSources(names, observed)
	}
	return observed
}

func (s *Snapshot) copyExchange(name string, observed vhost.Observed) {
	if exchange, exists := s.exchanges[name]; exists {
		observed.Exchanges[name] = exchange
	}
}

// follow adds an exchange and all exchanges that messages can reach from it, each with its bindings and alternates.
func (s *Snapshot) follow(from string, observed vhost.Observed) {
	for name := range vhost.Reach([]string{from}, s.nextExchanges) {
		s.copyExchange(name, observed)
		observed.Alternates[name] = s.alternatesOf(name)
		if bindings := s.BindingsFrom[name]; len(bindings) > 0 {
			observed.BindingsFrom[name] = slices.Clip(bindings)
		}
	}
}

// nextExchanges lists the exchanges that an exchange routes to directly, and its possible alternate exchanges.
func (s *Snapshot) nextExchanges(exchange string) (names []string) {
	for _, binding := range s.BindingsFrom[exchange] {
		if binding.ToExchange {
			names = append(names, binding.Destination)
		}
	}
	return append(names, s.alternatesOf(exchange)...)
}

func sameExchange(a, b vhost.Exchange) bool {
	return a.Type == b.Type && a.Durable == b.Durable && a.AutoDelete == b.AutoDelete && a.Internal == b.Internal &&
		SameArguments(a.Arguments, b.Arguments)
}

func sameQueue(a, b vhost.Queue) bool {
	return a.Durable == b.Durable && a.AutoDelete == b.AutoDelete && a.Exclusive == b.Exclusive &&
		SameArguments(a.Arguments, b.Arguments)
}

func sameBinding(a, b vhost.Binding) bool {
	return a.Source == b.Source && a.Destination == b.Destination && a.RoutingKey == b.RoutingKey &&
		a.ToExchange == b.ToExchange && SameArguments(a.Arguments, b.Arguments)
}

// SamePolicy reports whether all fields of two policies are equal.
func SamePolicy(a, b vhost.Policy) bool {
	return a.Name == b.Name && a.Pattern.Equal(b.Pattern) && a.Priority == b.Priority && a.ApplyTo == b.ApplyTo &&
		a.Operator == b.Operator && SameArguments(a.Definition, b.Definition)
}

// SameArguments is Arguments.Equal for arguments in normal form, as all arguments in a snapshot are.
func SameArguments(a, b vhost.Arguments) bool {
	return maps.EqualFunc(a, b, func(x, y any) bool {
		switch x := x.(type) {
		case string, int64, bool:
			return x == y
		}
		return reflect.DeepEqual(x, y)
	})
}
