package recreate

import (
	"testing"

	"github.com/warren-mq/warren/internal/rabbit/management"
)

func TestRoomForARecreation(t *testing.T) {
	cases := map[string]struct {
		bytes   int64
		nodes   []management.Node
		refusal string // none if there is room
	}{
		"no node is known": {1 << 30, nil, ""},
		"enough disk":      {1000, []management.Node{{Name: "a", FreeDisk: 3000.0}}, ""},
		"the disk is not monitored": {
			1000, []management.Node{{Name: "a", FreeDisk: "disk_free_monitoring_disabled"}}, "",
		},
		"one node has too little disk": {
			1000,
			[]management.Node{{Name: "a", FreeDisk: 3000.0}, {Name: "b", FreeDisk: 2999.0}},
			`node "b" has 2999 bytes of free disk; to move the 1000 bytes of queue "orders", it needs 3000`,
		},
		"a memory alarm": {
			0, []management.Node{{Name: "a", MemoryAlarm: true}}, `node "a" has a memory alarm, so RabbitMQ takes no messages`,
		},
		"a disk alarm": {0, []management.Node{{Name: "a", DiskAlarm: true}}, `node "a" has a disk alarm, so RabbitMQ takes no messages`},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			err := checkRoom("orders", test.bytes, test.nodes)
			if got := textOf(err); got != test.refusal || err != nil && ReasonOf(err) != QueueUnavailable {
				t.Errorf("%q: %q", ReasonOf(err), got)
			}
		})
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
