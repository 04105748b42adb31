package management

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/vhost"
)

// HasQueue reports whether a queue exists in the vhost. Exclusive queues count.
func (c *Client) HasQueue(ctx context.Context, name string) (exists bool, err error) {
	return c.queue(ctx, name, "?disable_stats=true&columns=name", nil)
}

// queue requests one queue, and decodes it into result, unless that is nil. It reports whether the queue exists.
func (c *Client) queue(ctx context.Context, name, query string, result *QueueInfo) (exists bool, err error) {
	path := "/queues/" + Escape(c.VHost) + "/" + Escape(name)
	err = c.do(ctx, http.MethodGet, path+query, "", nil, func(response *http.Response) error {
		exists = response.StatusCode == http.StatusOK
		switch {
		case exists && result != nil:
			return c.decode(path, response.Body, result)
		case exists, response.StatusCode == http.StatusNotFound:
			return nil
		}
		return c.describe(http.MethodGet, path, c.refused(response))
	})
	if err != nil || result == nil {
		return exists, err
	}
	if err := c.checkArguments(result); err != nil {
		return exists, c.describe(http.MethodGet, path, err)
	}
	return exists, nil
}

// HasVHost returns ErrVHostNotFound if the vhost does not exist. It requests an exchange that every vhost has, because only administrators
// may request the vhost itself.
func (c *Client) HasVHost(ctx context.Context) error {
	var exchange struct{ Name string }
	_, err := c.Get(ctx, "/exchanges/"+Escape(c.VHost)+"/"+Escape("amq.direct")+"?disable_stats=true&columns=name", "", &exchange)
	if errors.Is(err, brokererr.ErrAccessRefused) { // the vhost exists
		return nil
	}
	return err
}

// ListsConnections reports whether the user may list its own connections. The broker lists none if it collects no statistics.
func (c *Client) ListsConnections(ctx context.Context) (bool, error) {
	err := c.Connections(ctx, func(LooseObject) {})
	if errors.Is(err, brokererr.ErrAccessRefused) {
		return false, nil
	}
	return err == nil, err
}

// HasConnection reports whether the broker lists an AMQP connection whose client property has this value. The broker lists a connection
// some seconds after it was opened.
func (c *Client) HasConnection(ctx context.Context, property, id string) (found bool, err error) {
	err = c.Connections(ctx, func(properties LooseObject) { found = found || properties[property] == id })
	return found, err
}

// Connections calls show with the client properties of each connection to the vhost that the user may list. With the tag monitoring or
// administrator, these are all connections, and otherwise the user's own.
func (c *Client) Connections(ctx context.Context, show func(properties LooseObject)) error {
	type connection struct {
		Properties LooseObject `json:"client_properties"`
	}
	path := "/vhosts/" + Escape(c.VHost) + "/connections?columns=client_properties"
	return each(ctx, c, path, func(item connection) (int64, error) {
		show(item.Properties)
		return 0, nil
	})
}

// Consumer is a consumer of a queue, with the arguments of its basic.consume.
type Consumer struct{ Arguments LooseObject }

// Consumers returns the consumers of a queue, as they were up to five seconds ago. It returns none if the broker collects no statistics.
// Unlike the list of all consumers, the answer contains those of other users even if the user has only the tag management.
func (c *Client) Consumers(ctx context.Context, queue string) ([]Consumer, error) {
	var answer struct {
		Details []Consumer `json:"consumer_details"`
	}
	path := "/queues/" + Escape(c.VHost) + "/" + Escape(queue) + "?columns=name,consumer_details.arguments"
	_, err := c.Get(ctx, path, "", &answer)
	return answer.Details, err
}

// effectivePolicy is the definition of the effective policy. Known is false if the answer does not contain it.
type effectivePolicy struct {
	Definition LooseObject
	Known      bool
}

func (p *effectivePolicy) UnmarshalJSON(text []byte) error {
	p.Known = true
	return json.Unmarshal(text, &p.Definition)
}

// LooseObject is a JSON object. RabbitMQ sometimes writes an empty object as [].
type LooseObject map[string]any

// UnmarshalJSON decodes an object. It decodes an array as an empty object.
func (o *LooseObject) UnmarshalJSON(text []byte) error {
	*o = nil
	if len(text) > 0 && text[0] == '[' {
		return nil
	}
	return json.Unmarshal(text, (*map[string]any)(o))
}

// Policies lists all policies, including fences, and all operator policies.
func (c *Client) Policies(ctx context.Context) ([]vhost.Policy, error) {
	patterns := &vhost.Patterns{}
	var all []vhost.Policy
	for _, operator := range []bool{false, true} {
		var items List[PolicyItem]
		path := "/policies/"
		if operator {
			path = "/operator-policies/"
		}
		if _, err := c.Get(ctx, path+Escape(c.VHost), "", &items); err != nil {
			return nil, err
		}
		for _, item := range items {
			all = append(all, item.Observed(patterns, operator))
		}
	}
	return all, nil
}

// QueueInfo is a queue as the management API shows it. The queue's own fields are current. Statistics are seconds old, or a minute on a
// busy broker, so no deletion may depend on them.
type QueueInfo struct {
	Type      string
	State     string
	Leader    string
	Arguments map[string]any

	// Policy and Effective are statistics, so they are seconds old. This also holds for RabbitMQ 4.3.6, which returns current values
	// only to a request without statistics.
	Policy    string
	Effective effectivePolicy `json:"effective_policy_definition"`

	// DeadLetters counts the messages that wait to be dead-lettered; nil without statistics.
	DeadLetters *int `json:"messages_dlx"`
	// Bytes is the size of all messages; zero without statistics.
	Bytes int64 `json:"message_bytes"`
}

// largestArguments is how much memory the arguments of a queue may take, in bytes. A ConsumerQueue can set 32 arguments of 1,024 bytes
// each.
const largestArguments = 64 << 10

// checkArguments returns an error if the arguments of a queue take too much memory.
func (c *Client) checkArguments(info *QueueInfo) error {
	if SizeOf(info.Arguments) <= largestArguments {
		return nil
	}
	return c.errs.TooLarge(largestArguments, "the memory of a queue's arguments is larger")
}

// The queries of QueueInfo, with and without statistics. RabbitMQ writes a queue that has none of the columns as an empty list, and a new
// queue has no statistics yet.
const (
	WithoutStatistics = "?disable_stats=true&columns=type,state,leader,arguments"
	WithStatistics    = "?columns=name,policy,effective_policy_definition,messages_dlx,message_bytes"
)

// QueueInfo requests one queue. It returns nil if the queue does not exist. query is WithoutStatistics or WithStatistics.
func (c *Client) QueueInfo(ctx context.Context, queue, query string) (*QueueInfo, error) {
	answer := &QueueInfo{}
	exists, err := c.queue(ctx, queue, query, answer)
	if err != nil || !exists {
		return nil, err
	}
	return answer, nil
}

// MatchQueue is the prefix of the names of match queues: exclusive queues that show that AMQP and the management API belong to one broker.
// The user needs the permission to configure them.
const MatchQueue = vhost.PrefixMatch

// BindingsOf lists the bindings of a queue except the implicit binding of the default exchange.
func (c *Client) BindingsOf(ctx context.Context, queue string) ([]vhost.Binding, error) {
	var items List[BindingItem]
	path := "/queues/" + Escape(c.VHost) + "/" + Escape(queue) + "/bindings?columns=" + BindingColumns
	if _, err := c.Get(ctx, path, "", &items); err != nil {
		return nil, err
	}
	var bindings []vhost.Binding
	for _, item := range items {
		if item.Source != "" {
			bindings = append(bindings, item.Observed())
		}
	}
	return bindings, nil
}

// Cluster returns the cluster that answers; see Identity.
func (c *Client) Cluster(ctx context.Context) (vhost.Cluster, error) {
	found, _, err := c.Identity(ctx)
	return found, err
}
