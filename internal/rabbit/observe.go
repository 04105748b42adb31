package rabbit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"

	"github.com/warren-mq/warren/internal/topology"
)

// The items of definitions and of the lesser listings. They have the same names in both.

type queueItem struct {
	Name       string
	Type       string // in definitions from 4.3 on, in listings always
	Durable    bool
	AutoDelete bool `json:"auto_delete"`
	Exclusive  bool // only in listings; definitions leave exclusive queues out
	Arguments  map[string]any
}

type exchangeItem struct {
	Name       string
	Type       string
	Durable    bool
	AutoDelete bool `json:"auto_delete"`
	Internal   bool
	Arguments  map[string]any
}

type bindingItem struct {
	Source          string
	Destination     string
	DestinationType string `json:"destination_type"`
	RoutingKey      string `json:"routing_key"`
	Arguments       map[string]any
}

type policyItem struct {
	Name       string
	Pattern    string
	Priority   int
	ApplyTo    string `json:"apply-to"`
	Definition map[string]any
}

const (
	queueColumns    = "name,type,durable,auto_delete,exclusive,arguments"
	exchangeColumns = "name,type,durable,auto_delete,internal,arguments"
	bindingColumns  = "source,destination,destination_type,routing_key,arguments"
	// pageSize is the most that RabbitMQ allows.
	pageSize = 500
	// pagingAttempts is how often a listing is begun anew because it changed while it was read.
	pagingAttempts = 5
)

// observed puts the type among the arguments, where topology looks for it: 3.x leaves it out for classic queues, and its
// definitions have no type.
func (q queueItem) observed() topology.ObservedQueue {
	arguments := topology.Normalize(q.Arguments)
	if _, given := arguments[topology.ArgQueueType]; !given {
		if arguments == nil {
			arguments = topology.Arguments{}
		}
		arguments[topology.ArgQueueType] = "classic"
		if q.Type != "" {
			arguments[topology.ArgQueueType] = q.Type
		}
	}
	return topology.ObservedQueue{Durable: q.Durable, AutoDelete: q.AutoDelete, Exclusive: q.Exclusive, Arguments: arguments}
}

func (e exchangeItem) observed() topology.ObservedExchange {
	return topology.ObservedExchange{
		Type: e.Type, Durable: e.Durable, AutoDelete: e.AutoDelete, Internal: e.Internal,
		Arguments: topology.Normalize(e.Arguments),
	}
}

func (b bindingItem) observed() topology.ObservedBinding {
	return topology.ObservedBinding{
		Source: b.Source, Destination: b.Destination, RoutingKey: b.RoutingKey,
		ToExchange: b.DestinationType == "exchange", Arguments: topology.Normalize(b.Arguments),
	}
}

func (p policyItem) observed(operator bool) topology.Policy {
	return topology.Policy{
		Name: p.Name, Pattern: p.Pattern, Priority: p.Priority, ApplyTo: p.ApplyTo, Operator: operator,
		Definition: topology.Normalize(p.Definition),
	}
}

// observeDefinitions reads the whole vhost with one request; errNotModified if the ETag still holds. Operator policies
// are among the parameters.
func (m *management) observeDefinitions(
	ctx context.Context, etag string, builtin map[string]topology.ObservedExchange,
) (*snapshot, string, error) {
	var definitions struct {
		Queues     []queueItem
		Exchanges  []exchangeItem
		Bindings   []bindingItem
		Policies   []policyItem
		Parameters []struct {
			Component, Name string
			Value           json.RawMessage
		}
	}
	etag, err := m.get(ctx, "/definitions/"+escape(m.config.VHost), etag, &definitions)
	if err != nil {
		return nil, "", err
	}
	var operator []policyItem
	for _, parameter := range definitions.Parameters {
		if parameter.Component != "operator_policy" {
			continue
		}
		policy := policyItem{}
		if err := m.decode("/definitions/"+escape(m.config.VHost), bytes.NewReader(parameter.Value), &policy); err != nil {
			return nil, "", err
		}
		policy.Name = parameter.Name
		operator = append(operator, policy)
	}
	return build(builtin, definitions.Exchanges, definitions.Queues, definitions.Bindings, definitions.Policies, operator), etag, nil
}

// observeListings reads the vhost with the listings that every user with the tag management may read.
func (m *management) observeListings(ctx context.Context, builtin map[string]topology.ObservedExchange) (*snapshot, error) {
	vhost := escape(m.config.VHost)
	queues, err := list[queueItem](ctx, m, "/queues/"+vhost, "disable_stats=true&columns="+queueColumns)
	if err != nil {
		return nil, err
	}
	exchanges, err := list[exchangeItem](ctx, m, "/exchanges/"+vhost, "disable_stats=true&columns="+exchangeColumns)
	if err != nil {
		return nil, err
	}
	var bindings []bindingItem // bindings and policies are never paged
	if _, err := m.get(ctx, "/bindings/"+vhost+"?columns="+bindingColumns, "", &bindings); err != nil {
		return nil, err
	}
	var policies, operator []policyItem
	if _, err := m.get(ctx, "/policies/"+vhost, "", &policies); err != nil {
		return nil, err
	}
	if _, err := m.get(ctx, "/operator-policies/"+vhost, "", &operator); err != nil && !errors.Is(err, ErrAccessRefused) {
		return nil, err
	}
	return build(builtin, exchanges, queues, bindings, policies, operator), nil
}

// list reads all pages of a listing. Objects that come and go in between move others to a page that was read already,
// and what is missed would seem to be missing at the broker: such a listing is begun anew.
func list[T any](ctx context.Context, m *management, path, query string) ([]T, error) {
	for range pagingAttempts {
		items, whole, err := pages[T](ctx, m, path, query)
		if err != nil || whole {
			return items, err
		}
	}
	return nil, m.describe(http.MethodGet, path,
		m.config.fail(ErrUnreachable, "the listing changed each of %d times it was read", pagingAttempts))
}

func pages[T any](ctx context.Context, m *management, path, query string) (items []T, whole bool, err error) {
	total := -1
	for number, count := 1, 1; number <= count; number++ {
		var page struct {
			Items []T
			Count int `json:"page_count"`
			Total int `json:"filtered_count"`
		}
		_, err := m.get(ctx, fmt.Sprintf("%s?page=%d&page_size=%d&%s", path, number, pageSize, query), "", &page)
		if err != nil {
			return nil, false, err
		}
		if total >= 0 && total != page.Total {
			return nil, false, nil
		}
		items, count, total = append(items, page.Items...), page.Count, page.Total
	}
	return items, len(items) == total, nil
}

// build makes a snapshot of what the broker said.
func build(builtin map[string]topology.ObservedExchange, exchanges []exchangeItem, queues []queueItem, bindings []bindingItem,
	policies, operator []policyItem,
) *snapshot {
	s := newSnapshot(len(exchanges)+len(builtin), len(queues))
	maps.Copy(s.exchanges, builtin)
	for _, item := range exchanges {
		if _, known := builtin[item.Name]; !known && item.Name != "" { // listings have them all, definitions none of these
			s.exchanges[item.Name] = item.observed()
		}
	}
	for _, item := range queues {
		s.queues[item.Name] = item.observed()
	}
	for _, item := range bindings {
		if item.Source != "" { // the default exchange's implicit one, in listings only
			s.addBinding(item.observed())
		}
	}
	s.policies, s.fences = splitFences(policies)
	for _, item := range operator {
		s.policies = append(s.policies, item.observed(true))
	}
	s.sort()
	return s
}
