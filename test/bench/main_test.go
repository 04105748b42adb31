package main

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
)

func TestReadFlags(t *testing.T) {
	t.Parallel()
	given, err := readFlags([]string{"-n", "100, 20", "-phases=idle,takeover tiers", "-layouts", "shared"})
	if err != nil {
		t.Fatal(err)
	}
	if difference := cmp.Diff([]int{100, 20}, given.counts); difference != "" {
		t.Error(difference)
	}
	if difference := cmp.Diff([]string{"idle", "takeover", "tiers"}, given.phases); difference != "" {
		t.Error(difference)
	}
	if len(given.layouts) != 1 || given.layouts[0].name != "shared" {
		t.Errorf("layouts %v", given.layouts)
	}
	for _, arguments := range [][]string{{"-n", "many"}, {"-n", "0"}, {"-phases", "sleep"}, {"-layouts", "none"}} {
		if _, err := readFlags(arguments); err == nil {
			t.Errorf("%v: no error", arguments)
		}
	}
}

// The bare program declares objects that several ConsumerQueues share only once, with the first of them.
func TestTopologies(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		layout                                 string
		exchanges, queues, bindings, allQueues int
	}{
		{"own", 1, 3, 2, 9},
		{"shared", 0, 2, 2, 7},
	} {
		at := slices.IndexFunc(layoutTable, func(l layout) bool { return l.name == row.layout })
		w := &world{count: 3, layout: layoutTable[at], vhost: brokers.Broker{Version: "4.3.6"}.VHost(t, "/")}
		list, err := w.topologies()
		if err != nil {
			t.Fatal(err)
		}
		later := list[2]
		if len(later.Exchanges) != row.exchanges || len(later.Queues) != row.queues || len(later.Bindings) != row.bindings {
			t.Errorf("%s: %+v", row.layout, later)
		}
		all := 0
		for _, topology := range list {
			all += len(topology.Queues)
		}
		if all != row.allQueues {
			t.Errorf("%s: %d queues, not %d", row.layout, all, row.allQueues)
		}
	}
}

// A ConsumerQueue has one more queue for each delay tier. The queues of a tier are found by name.
func TestTierQueues(t *testing.T) {
	t.Parallel()
	for _, layout := range layoutTable {
		w := &world{count: 2, layout: layout, vhost: brokers.Broker{Version: "4.3.6"}.VHost(t, "/")}
		one, err := w.desired(1, "30s")
		if err != nil {
			t.Fatal(err)
		}
		two, err := w.desired(1, "30s", "1h")
		if err != nil {
			t.Fatal(err)
		}
		if len(two.Queues) != len(one.Queues)+1 {
			t.Errorf("%s: %d queues with two delay tiers, %d with one", layout.name, len(two.Queues), len(one.Queues))
		}
		names, err := w.tierQueues("1h")
		if err != nil {
			t.Fatal(err)
		}
		if difference := cmp.Diff([]string{"orders-00000.retry.1h", "orders-00001.retry.1h"}, names); difference != "" {
			t.Errorf("%s (- wanted, + got):\n%s", layout.name, difference)
		}
	}
}

func TestReceivesEvents(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		known              *v1alpha1.BrokerCapabilities
		heard, knowsOfNone bool
	}{
		"nothing known": {nil, false, false},
		"not known yet": {&v1alpha1.BrokerCapabilities{}, false, false},
		"not heard":     {&v1alpha1.BrokerCapabilities{EventsReason: "no exchange"}, false, true},
		"heard":         {&v1alpha1.BrokerCapabilities{Events: true}, true, false},
	} {
		if got := receivesEvents(row.known, true); got != row.heard {
			t.Errorf("%s: heard: %t", name, got)
		}
		if got := receivesEvents(row.known, false); got != row.knowsOfNone {
			t.Errorf("%s: not heard: %t", name, got)
		}
	}
}
