package rabbit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/warren-mq/warren/internal/vhost"
)

// readDefinitions reads the whole vhost with one request; errNotModified if the ETag still holds.
func readDefinitions(
	ctx context.Context, m *management, etag string, builtin map[string]vhost.Exchange,
) (*snapshot, string, error) {
	reader := newSnapshotReader(m.Limits, builtin)
	etag, err := m.get(ctx, "/definitions/"+escape(m.VHost), etag, reader)
	return reader.end(etag, err)
}

// readListings reads the vhost with the listings that every user with the tag management may read. Each is read with one
// request: pages are read at different moments, and an object that goes in between moves another one to a page that was
// read before.
func readListings(ctx context.Context, m *management, builtin map[string]vhost.Exchange) (*snapshot, error) {
	vhost := escape(m.VHost)
	reader := newSnapshotReader(m.Limits, builtin)
	for _, listing := range []struct {
		path string
		take streamedFunc
	}{
		{"/queues/" + vhost + "?disable_stats=true&columns=" + queueColumns, reader.queues},
		{"/exchanges/" + vhost + "?disable_stats=true&columns=" + exchangeColumns, reader.exchanges},
		{"/bindings/" + vhost + "?columns=" + bindingColumns, reader.bindings},
		{"/policies/" + vhost, reader.policies},
		{"/operator-policies/" + vhost, reader.operatorPolicies},
	} {
		_, err := m.get(ctx, listing.path, "", listing.take)
		if errors.Is(err, ErrAccessRefused) && strings.HasPrefix(listing.path, "/operator-policies/") {
			continue // the others are for every user
		}
		if err != nil {
			fresh, _, err := reader.end("", err)
			return fresh, err
		}
	}
	fresh, _, err := reader.end("", nil)
	return fresh, err
}

// snapshotReader makes a snapshot of answers while they are read.
type snapshotReader struct {
	fresh    *snapshot
	builtin  map[string]vhost.Exchange
	listed   []policyItem
	operator []policyItem
	words    words
	held     int64 // the memory that the snapshot takes
}

func newSnapshotReader(limits *Limits, builtin map[string]vhost.Exchange) *snapshotReader {
	fresh := newSnapshot()
	fresh.room = &room{limits: limits}
	maps.Copy(fresh.exchanges, builtin)
	return &snapshotReader{fresh: fresh, builtin: builtin, words: words{}}
}

// end completes the snapshot, or gives back what it takes.
func (r *snapshotReader) end(etag string, err error) (*snapshot, string, error) {
	if err != nil {
		r.fresh.room.free()
		return nil, "", err
	}
	patterns := &vhost.Patterns{}
	r.fresh.policies, r.fresh.fences = splitFences(patterns, r.listed)
	for _, item := range r.operator {
		r.fresh.policies = append(r.fresh.policies, item.observed(patterns, true))
	}
	r.fresh.sort()
	r.fresh.room.shrink(r.held)
	return r.fresh, etag, nil
}

// decode takes definitions. Operator policies are among their parameters.
func (r *snapshotReader) decode(a *answer) error {
	missing := map[string]func() error{
		"queues":     func() error { return r.queues(a) },
		"exchanges":  func() error { return r.exchanges(a) },
		"bindings":   func() error { return r.bindings(a) },
		"policies":   func() error { return r.policies(a) },
		"parameters": func() error { return r.parameters(a) },
	}
	if err := a.sections(missing); err != nil {
		return err
	}
	for _, name := range []string{"queues", "exchanges", "bindings"} {
		if missing[name] != nil {
			return fmt.Errorf("%w: definitions without %s", errNotRabbitMQ, name)
		}
	}
	return nil
}

// take decodes an array into the snapshot, whose memory is counted across answers.
func take[T any](r *snapshotReader, a *answer, add func(T) int64) error {
	a.room.free()
	a.room, a.held = r.fresh.room, r.held
	err := eachItem(a, func(item T) (int64, error) {
		bytes := add(item)
		r.held += bytes
		return bytes, nil
	})
	a.room, a.held = &room{limits: a.room.limits}, 0
	return err
}

func (r *snapshotReader) queues(a *answer) error    { return take(r, a, r.addQueue) }
func (r *snapshotReader) exchanges(a *answer) error { return take(r, a, r.addExchange) }
func (r *snapshotReader) bindings(a *answer) error  { return take(r, a, r.addBinding) }
func (r *snapshotReader) policies(a *answer) error  { return take(r, a, r.addPolicy) }

func (r *snapshotReader) operatorPolicies(a *answer) error { return take(r, a, r.addOperatorPolicy) }

// The functions that add an item to the snapshot say how much memory it takes there.

// addQueue leaves out those by which Warren matches AMQP with the management API; see match.go.
func (r *snapshotReader) addQueue(item queueItem) int64 {
	if item.Exclusive && strings.HasPrefix(item.Name, matchQueue) {
		return 0
	}
	queue := item.observed()
	r.fresh.queues[item.Name] = queue
	return sizeOfQueue + int64(len(item.Name)) + r.words.share(queue.Arguments)
}

// addExchange leaves out the builtin ones, which are known: listings have them all, definitions none.
func (r *snapshotReader) addExchange(item exchangeItem) int64 {
	if _, known := r.builtin[item.Name]; known || item.Name == "" {
		return 0
	}
	exchange := item.observed()
	exchange.Type = r.words.of(exchange.Type)
	r.fresh.exchanges[item.Name] = exchange
	return sizeOfExchange + int64(len(item.Name)+len(item.Type)) + r.words.share(exchange.Arguments)
}

// addBinding leaves out the default exchange's implicit ones, which are in listings only.
func (r *snapshotReader) addBinding(item bindingItem) int64 {
	if item.Source == "" {
		return 0
	}
	binding := item.observed()
	binding.Source = r.words.of(binding.Source)
	r.fresh.addBinding(binding)
	return sizeOfBinding + int64(len(item.Source)+len(item.Destination)+len(item.RoutingKey)) + r.words.share(binding.Arguments)
}

func (r *snapshotReader) addPolicy(item policyItem) int64 {
	r.listed = append(r.listed, item)
	return item.size()
}

func (r *snapshotReader) addOperatorPolicy(item policyItem) int64 {
	r.operator = append(r.operator, item)
	return item.size()
}

// parameter is a runtime parameter; its value is read only where it is an operator policy.
type parameter struct {
	Component, Name string
	Value           json.RawMessage
}

func (r *snapshotReader) parameters(a *answer) error {
	failed := error(nil)
	err := take(r, a, func(item parameter) int64 {
		if item.Component != "operator_policy" {
			return 0
		}
		policy := policyItem{}
		failed = errors.Join(failed, exactly(item.Value, &policy))
		policy.Name = item.Name
		return r.addOperatorPolicy(policy)
	})
	return errors.Join(err, failed)
}

// exactly decodes JSON and keeps numbers as they are written.
func exactly(text json.RawMessage, result any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(result)
}
