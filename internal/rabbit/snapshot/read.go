package snapshot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/vhost"
)

// ReadDefinitions reads the whole vhost with one request, and returns the snapshot with its ETag. The error is
// management.ErrNotModified if nothing changed since the given ETag. builtin are the exchanges amq.*, which the answer leaves out.
func ReadDefinitions(
	ctx context.Context, m *management.Client, etag string, builtin map[string]vhost.Exchange,
) (*Snapshot, string, error) {
	reader := newSnapshotReader(m.Limits, builtin)
	etag, err := m.Get(ctx, "/definitions/"+management.Escape(m.VHost), etag, reader)
	return reader.end(etag, err)
}

// ReadListings reads the vhost with the listings that every user with the tag management may read. It reads each listing with one
// request, because the deletion of an object between two pages can move another object to a page that was read already.
func ReadListings(ctx context.Context, m *management.Client, builtin map[string]vhost.Exchange) (*Snapshot, error) {
	path := management.Escape(m.VHost)
	reader := newSnapshotReader(m.Limits, builtin)
	for _, listing := range []struct {
		path string
		take management.StreamedFunc
	}{
		{"/queues/" + path + "?disable_stats=true&columns=" + management.QueueColumns, reader.queues},
		{"/exchanges/" + path + "?disable_stats=true&columns=" + management.ExchangeColumns, reader.exchanges},
		{"/bindings/" + path + "?columns=" + management.BindingColumns, reader.bindings},
		{"/policies/" + path, reader.policies},
		{"/operator-policies/" + path, reader.operatorPolicies},
	} {
		_, err := m.Get(ctx, listing.path, "", listing.take)
		if errors.Is(err, brokererr.ErrAccessRefused) && strings.HasPrefix(listing.path, "/operator-policies/") {
			continue // only some users may read operator policies
		}
		if err != nil {
			fresh, _, err := reader.end("", err)
			return fresh, err
		}
	}
	fresh, _, err := reader.end("", nil)
	return fresh, err
}

// snapshotReader builds a snapshot while answers are decoded.
type snapshotReader struct {
	fresh    *Snapshot
	builtin  map[string]vhost.Exchange
	listed   []management.PolicyItem
	operator []management.PolicyItem
	words    words
	kept     *management.Kept // the memory that the snapshot takes
}

func newSnapshotReader(limits *management.Limits, builtin map[string]vhost.Exchange) *snapshotReader {
	fresh := New()
	kept := management.NewKept(limits)
	fresh.Room = kept.Room
	maps.Copy(fresh.exchanges, builtin)
	return &snapshotReader{fresh: fresh, builtin: builtin, words: words{}, kept: kept}
}

// end completes the snapshot, or frees its memory if the refresh failed.
func (r *snapshotReader) end(etag string, err error) (*Snapshot, string, error) {
	if err != nil {
		r.fresh.Room.Free()
		return nil, "", err
	}
	patterns := &vhost.Patterns{}
	r.fresh.Policies, r.fresh.Fences = splitFences(patterns, r.listed)
	for _, item := range r.operator {
		r.fresh.Policies = append(r.fresh.Policies, item.Observed(patterns, true))
	}
	r.fresh.sort()
	r.fresh.Room.Shrink(r.kept.Bytes)
	return r.fresh, etag, nil
}

// Decode reads definitions, in which operator policies are runtime parameters.
func (r *snapshotReader) Decode(a *management.Answer) error {
	missing := map[string]func() error{
		"queues":     func() error { return r.queues(a) },
		"exchanges":  func() error { return r.exchanges(a) },
		"bindings":   func() error { return r.bindings(a) },
		"policies":   func() error { return r.policies(a) },
		"parameters": func() error { return r.parameters(a) },
	}
	if err := a.Sections(missing); err != nil {
		return err
	}
	for _, name := range []string{"queues", "exchanges", "bindings"} {
		if missing[name] != nil {
			return fmt.Errorf("%w: definitions without %s", management.ErrNotRabbitMQ, name)
		}
	}
	return nil
}

// take decodes an array into the snapshot. The memory of all answers together counts against one limit.
func take[T any](r *snapshotReader, a *management.Answer, add func(T) int64) error {
	return management.EachKept(a, r.kept, func(item T) (int64, error) { return add(item), nil })
}

func (r *snapshotReader) queues(a *management.Answer) error    { return take(r, a, r.addQueue) }
func (r *snapshotReader) exchanges(a *management.Answer) error { return take(r, a, r.addExchange) }
func (r *snapshotReader) bindings(a *management.Answer) error  { return take(r, a, r.addBinding) }
func (r *snapshotReader) policies(a *management.Answer) error  { return take(r, a, r.addPolicy) }

func (r *snapshotReader) operatorPolicies(a *management.Answer) error {
	return take(r, a, r.addOperatorPolicy)
}

// Each function that adds an item to the snapshot returns the memory that the item takes there, in bytes.

// addQueue leaves out match queues; see management.MatchQueue.
func (r *snapshotReader) addQueue(item management.QueueItem) int64 {
	if item.Exclusive && strings.HasPrefix(item.Name, management.MatchQueue) {
		return 0
	}
	queue := item.Observed()
	r.fresh.Queues[item.Name] = queue
	return sizeOfQueue + int64(len(item.Name)) + r.words.share(queue.Arguments)
}

// addExchange leaves out the exchanges amq.*, which are already in the snapshot. Listings contain all of them, and definitions none.
func (r *snapshotReader) addExchange(item management.ExchangeItem) int64 {
	if _, known := r.builtin[item.Name]; known || item.Name == "" {
		return 0
	}
	exchange := item.Observed()
	exchange.Type = r.words.of(exchange.Type)
	r.fresh.exchanges[item.Name] = exchange
	return sizeOfExchange + int64(len(item.Name)+len(item.Type)) + r.words.share(exchange.Arguments)
}

// addBinding leaves out the implicit bindings of the default exchange, which only listings contain.
func (r *snapshotReader) addBinding(item management.BindingItem) int64 {
	if item.Source == "" {
		return 0
	}
	binding := item.Observed()
	binding.Source = r.words.of(binding.Source)
	r.fresh.addBinding(binding)
	return sizeOfBinding + int64(len(item.Source)+len(item.Destination)+len(item.RoutingKey)) + r.words.share(binding.Arguments)
}

func (r *snapshotReader) addPolicy(item management.PolicyItem) int64 {
	r.listed = append(r.listed, item)
	return item.Size()
}

func (r *snapshotReader) addOperatorPolicy(item management.PolicyItem) int64 {
	r.operator = append(r.operator, item)
	return item.Size()
}

// parameter is a runtime parameter. Its value is decoded only if it is an operator policy.
type parameter struct {
	Component, Name string
	Value           json.RawMessage
}

func (r *snapshotReader) parameters(a *management.Answer) error {
	failed := error(nil)
	err := take(r, a, func(item parameter) int64 {
		if item.Component != "operator_policy" {
			return 0
		}
		policy := management.PolicyItem{}
		failed = errors.Join(failed, exactly(item.Value, &policy))
		policy.Name = item.Name
		return r.addOperatorPolicy(policy)
	})
	return errors.Join(err, failed)
}

// exactly decodes JSON with numbers as json.Number, because a float64 cannot represent every int64.
func exactly(text json.RawMessage, result any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(result)
}
