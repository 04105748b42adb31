package definitions

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// File is the part of a definitions.json that concerns topologies.
type File struct {
	RabbitVersion   string     `json:"rabbit_version,omitempty"`
	RabbitMQVersion string     `json:"rabbitmq_version,omitempty"`
	Exchanges       []Exchange `json:"exchanges"`
	Queues          []Queue    `json:"queues"`
	Bindings        []Binding  `json:"bindings"`
	Policies        []Policy   `json:"policies,omitempty"`
}

// Exchange of a file. VHost is empty in the file of a single vhost.
type Exchange struct {
	Name       string          `json:"name"`
	VHost      string          `json:"vhost,omitempty"`
	Type       string          `json:"type"`
	Durable    bool            `json:"durable"`
	AutoDelete bool            `json:"auto_delete"`
	Internal   bool            `json:"internal"`
	Arguments  vhost.Arguments `json:"arguments"`
}

// Queue of a file. Newer versions of RabbitMQ also write its type beside the arguments.
type Queue struct {
	Name       string          `json:"name"`
	VHost      string          `json:"vhost,omitempty"`
	Type       string          `json:"type,omitempty"`
	Durable    bool            `json:"durable"`
	AutoDelete bool            `json:"auto_delete"`
	Arguments  vhost.Arguments `json:"arguments"`
}

// Binding of a file.
type Binding struct {
	Source          string          `json:"source"`
	VHost           string          `json:"vhost,omitempty"`
	Destination     string          `json:"destination"`
	DestinationType string          `json:"destination_type"`
	RoutingKey      string          `json:"routing_key"`
	Arguments       vhost.Arguments `json:"arguments"`
}

// Policy of a file.
type Policy struct {
	Name       string          `json:"name"`
	VHost      string          `json:"vhost,omitempty"`
	Definition vhost.Arguments `json:"definition"`
}

// Parse parses a definitions.json, and normalizes arguments.
func Parse(content []byte) (File, error) {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	file := File{}
	if err := decoder.Decode(&file); err != nil {
		return File{}, fmt.Errorf("the file is not a definitions.json: %w", err)
	}
	for i := range file.Exchanges {
		file.Exchanges[i].Arguments = vhost.Normalize(file.Exchanges[i].Arguments)
	}
	for i := range file.Queues {
		queue := &file.Queues[i]
		if queue.Name == "" {
			return File{}, errors.New("the file is not a definitions.json: a queue has no name")
		}
		queue.Arguments = vhost.Normalize(queue.Arguments)
		if _, given := queue.Arguments[vhost.ArgQueueType]; !given && queue.Type != "" {
			if queue.Arguments == nil {
				queue.Arguments = vhost.Arguments{}
			}
			queue.Arguments[vhost.ArgQueueType] = queue.Type
		}
	}
	for i := range file.Bindings {
		file.Bindings[i].Arguments = vhost.Normalize(file.Bindings[i].Arguments)
	}
	return file, nil
}

// Version returns the version of the RabbitMQ that wrote the file; empty if the file does not contain it.
func (f File) Version() string { return cmp.Or(f.RabbitMQVersion, f.RabbitVersion) }

// VHosts returns the vhosts with queues or exchanges. The vhost in the file of a single vhost has an empty name.
func (f File) VHosts() []string {
	names := make([]string, 0, len(f.Queues)+len(f.Exchanges))
	for _, queue := range f.Queues {
		names = append(names, queue.VHost)
	}
	for _, exchange := range f.Exchanges {
		names = append(names, exchange.VHost)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Of returns the file of topologies in one vhost, without duplicates. It leaves out exchanges that Warren does not declare, and
// returns their names in missing.
func Of(topologies []topology.Topology, vhostName string) (file File, missing []string) {
	file = File{Exchanges: []Exchange{}, Queues: []Queue{}, Bindings: []Binding{}}
	seen := vhost.IDs{}
	isNew := func(id vhost.ID) bool {
		defer func() { seen[id] = true }()
		return !seen[id]
	}
	declared := map[string]bool{}
	for _, topo := range topologies {
		for _, exchange := range topo.Exchanges {
			if !exchange.Declare {
				missing = append(missing, exchange.Name)
				continue
			}
			declared[exchange.Name] = true
			if isNew(exchange.ID()) {
				file.Exchanges = append(file.Exchanges, Exchange{
					Name: exchange.Name, VHost: vhostName, Type: string(exchange.Type), Durable: true, Arguments: vhost.Arguments{},
				})
			}
		}
		for _, queue := range topo.Queues {
			if isNew(queue.ID()) {
				file.Queues = append(file.Queues, Queue{Name: queue.Name, VHost: vhostName, Durable: true, Arguments: queue.Arguments})
			}
		}
		for _, binding := range topo.Bindings {
			if isNew(binding.ID()) {
				file.Bindings = append(file.Bindings, bindingOf(binding, vhostName))
			}
		}
	}
	slices.Sort(missing)
	missing = slices.DeleteFunc(slices.Compact(missing), func(name string) bool { return declared[name] })
	return file, missing
}

func bindingOf(binding topology.Binding, vhostName string) Binding {
	arguments := binding.Arguments
	if arguments == nil {
		arguments = vhost.Arguments{}
	}
	return Binding{
		Source: binding.Source, VHost: vhostName, Destination: binding.Destination, DestinationType: "queue",
		RoutingKey: binding.RoutingKey, Arguments: arguments,
	}
}

func (b Binding) atBroker() vhost.Binding {
	return vhost.Binding{
		Source: b.Source, Destination: b.Destination, RoutingKey: b.RoutingKey, Arguments: b.Arguments,
		ToExchange: b.DestinationType == "exchange",
	}
}

// observed returns a vhost of the file as a broker shows it after the import.
func (f File) observed(vhostName string) vhost.Observed {
	o := vhost.Observed{
		Exchanges: map[string]vhost.Exchange{}, Queues: map[string]vhost.Queue{},
		BindingsTo: map[string][]vhost.Binding{}, BindingsFrom: map[string][]vhost.Binding{},
	}
	for name, kind := range builtIn {
		o.Exchanges[name] = vhost.Exchange{Type: kind, Durable: true}
	}
	for _, exchange := range f.Exchanges {
		if exchange.VHost == vhostName {
			o.Exchanges[exchange.Name] = vhost.Exchange{
				Type: exchange.Type, Durable: exchange.Durable, AutoDelete: exchange.AutoDelete, Internal: exchange.Internal,
				Arguments: exchange.Arguments,
			}
		}
	}
	for _, queue := range f.Queues {
		if queue.VHost == vhostName {
			o.Queues[queue.Name] = vhost.Queue{Durable: queue.Durable, AutoDelete: queue.AutoDelete, Arguments: withType(queue.Arguments)}
		}
	}
	for _, binding := range f.Bindings {
		if binding.VHost != vhostName {
			continue
		}
		at := binding.atBroker()
		o.BindingsFrom[at.Source] = append(o.BindingsFrom[at.Source], at)
		if !at.ToExchange {
			o.BindingsTo[at.Destination] = append(o.BindingsTo[at.Destination], at)
		}
	}
	return o
}

// builtIn are the exchanges of every vhost.
var builtIn = map[string]string{
	"amq.direct": vhost.TypeDirect, "amq.fanout": vhost.TypeFanout, "amq.topic": vhost.TypeTopic,
	"amq.headers": vhost.TypeHeaders, "amq.match": vhost.TypeHeaders,
}

// withType returns the arguments of a queue with its type. A queue without a type is classic, unless the vhost has another
// default.
func withType(arguments vhost.Arguments) vhost.Arguments {
	if _, given := arguments[vhost.ArgQueueType]; given {
		return arguments
	}
	typed := vhost.Arguments{vhost.ArgQueueType: vhost.TypeClassic}
	maps.Copy(typed, arguments)
	return typed
}
