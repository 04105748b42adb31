package snapshot

import (
	"slices"
	"sync"

	"github.com/warren-mq/warren/internal/vhost"
)

// alternateCache has the alternate exchanges that policies set. The patterns of a hostile vhost are slow, so each exchange is evaluated
// once until such a policy changes.
type alternateCache struct {
	guard    sync.Mutex          // serializes concurrent readers
	policies []vhost.Policy      // policies that set an alternate exchange
	known    map[string][]string // by exchange; nil before the first use
}

// get returns what is known about an exchange, and the policies for the evaluation if nothing is known.
func (c *alternateCache) get(exchange string, all []vhost.Policy) (found []string, known bool, policies []vhost.Policy) {
	c.guard.Lock()
	defer c.guard.Unlock()
	if c.known == nil {
		c.policies, c.known = vhost.AlternatePolicies(all), map[string][]string{}
	}
	found, known = c.known[exchange]
	return found, known || len(c.policies) == 0, c.policies
}

func (c *alternateCache) put(exchange string, found []string) {
	c.guard.Lock()
	defer c.guard.Unlock()
	c.known[exchange] = found
}

// alternatesOf returns the possible alternate exchanges of an exchange. Policies depend only on its name, so what the cache has is also
// true for an exchange that is created later.
func (s *Snapshot) alternatesOf(exchange string) []string {
	if byArgument := s.exchanges[exchange].Alternates(exchange, nil); len(byArgument) > 0 {
		return byArgument
	}
	found, known, policies := s.alternates.get(exchange, s.Policies)
	if !known { // the evaluation can take long: other readers do not wait for it
		found = vhost.Exchange{}.Alternates(exchange, policies)
		s.alternates.put(exchange, found)
	}
	return found
}

// keepAlternates reuses what an older snapshot knows, unless a policy that sets an alternate exchange has changed.
func (s *Snapshot) keepAlternates(old *Snapshot) {
	if !sameAlternatePolicies(old, s) {
		return
	}
	old.alternates.guard.Lock()
	defer old.alternates.guard.Unlock()
	for name, found := range old.alternates.known {
		if _, exists := s.exchanges[name]; exists {
			s.alternates.get(name, s.Policies)
			s.alternates.put(name, found)
		}
	}
}

func sameAlternatePolicies(a, b *Snapshot) bool {
	return slices.EqualFunc(vhost.AlternatePolicies(a.Policies), vhost.AlternatePolicies(b.Policies), SamePolicy)
}

// differingAlternates adds to changed each exchange whose possible alternate exchanges differ. It does nothing if the policies that
// set alternate exchanges are the same: changed then already has each exchange whose argument differs.
func differingAlternates(old, fresh *Snapshot, changed map[string]bool) {
	if sameAlternatePolicies(old, fresh) {
		return
	}
	for name := range fresh.exchanges {
		if !changed[name] && !slices.Equal(old.alternatesOf(name), fresh.alternatesOf(name)) {
			changed[name] = true
		}
	}
}

// allAlternates returns the possible alternate exchanges of the exchanges that may have some.
func (s *Snapshot) allAlternates() map[string][]string {
	all := map[string][]string{}
	for name := range s.exchanges {
		if alternates := s.alternatesOf(name); len(alternates) > 0 {
			all[name] = alternates
		}
	}
	return all
}

// addAlternating adds each exchange that has alternate exchanges to the sources of its alternates.
func (s *Snapshot) addAlternating(sources map[string][]string) {
	for name, alternates := range s.allAlternates() {
		for _, alternate := range alternates {
			sources[alternate] = append(sources[alternate], name)
		}
	}
}
