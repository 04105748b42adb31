package main

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadFlags(t *testing.T) {
	t.Parallel()
	given, err := readFlags([]string{"-n", "100, 20", "-phases=idle,delete", "-layouts", "shared"})
	if err != nil {
		t.Fatal(err)
	}
	if difference := cmp.Diff([]int{100, 20}, given.counts); difference != "" {
		t.Error(difference)
	}
	if difference := cmp.Diff([]string{"idle", "delete"}, given.phases); difference != "" {
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

// The bare program declares what several ConsumerQueues share once, with the first of them.
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
		w := &world{count: 3, layout: layoutTable[at], broker: &broker{version: "4.3.6"}}
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
