package main

import (
	"encoding/binary"
	"maps"
	"sync"

	"github.com/warren-mq/warren/test/amqpmethod"
	"github.com/warren-mq/warren/test/netfault"
)

// channel is a channel of a connection through a proxy.
type channel struct {
	connection int
	number     uint16
}

// deliveries are the messages that the program has received through a proxy and has not settled.
type deliveries struct {
	proxy *netfault.FrameProxy
	mu    sync.Mutex
	tags  map[channel]map[uint64]bool
}

// note records a delivery or its settlement.
func (d *deliveries) note(f netfault.Frame) {
	d.mu.Lock()
	defer d.mu.Unlock()
	on := channel{f.Connection, f.Channel}
	switch f.Method {
	case amqpmethod.ChannelClose:
		delete(d.tags, on)
	case amqpmethod.BasicDeliver:
		d.add(on, binary.BigEndian.Uint64(f.Arguments[1+int(f.Arguments[0]):])) // after the consumer tag
	case amqpmethod.BasicGetOK:
		d.add(on, binary.BigEndian.Uint64(f.Arguments))
	case amqpmethod.BasicAck, amqpmethod.BasicReject, amqpmethod.BasicNack:
		if f.FromBroker { // a confirm
			return
		}
		tag := binary.BigEndian.Uint64(f.Arguments)
		multiple := f.Method != amqpmethod.BasicReject && f.Arguments[8]&1 == 1
		maps.DeleteFunc(d.tags[on], func(each uint64, _ bool) bool { return each == tag || multiple && (each < tag || tag == 0) })
	}
}

func (d *deliveries) add(on channel, tag uint64) {
	if d.tags[on] == nil {
		d.tags[on] = map[uint64]bool{}
	}
	d.tags[on][tag] = true
}

// unsettled returns the number of messages that the program has received on an open channel and has not settled.
func (t *trial) unsettled() int {
	count := 0
	for _, each := range t.deliveries {
		each.mu.Lock()
		for on, tags := range each.tags {
			if each.proxy.IsOpen(on.connection) {
				count += len(tags)
			}
		}
		each.mu.Unlock()
	}
	return count
}
