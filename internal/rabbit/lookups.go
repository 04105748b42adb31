package rabbit

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/warren-mq/warren/internal/vhost"
)

// hasQueue says whether the vhost has a queue, exclusive ones included.
func (m *management) hasQueue(ctx context.Context, name string) (exists bool, err error) {
	path := "/queues/" + escape(m.VHost) + "/" + escape(name)
	err = m.do(ctx, http.MethodGet, path+"?disable_stats=true&columns=name", "", nil, func(response *http.Response) error {
		switch response.StatusCode {
		case http.StatusOK:
			exists = true
			return nil
		case http.StatusNotFound:
			return nil
		}
		return m.describe(http.MethodGet, path, m.refused(response))
	})
	return exists, err
}

// hasVHost returns ErrVHostNotFound if the vhost is not there. It asks for an exchange that every vhost has, for only
// administrators may ask for the vhost.
func (m *management) hasVHost(ctx context.Context) error {
	var exchange struct{ Name string }
	_, err := m.get(ctx, "/exchanges/"+escape(m.VHost)+"/"+escape("amq.direct")+"?disable_stats=true&columns=name", "", &exchange)
	if errors.Is(err, ErrAccessRefused) { // there it is
		return nil
	}
	return err
}

// tellsConnections says whether this user can see connections of its own, where the broker gathers statistics.
func (m *management) tellsConnections(ctx context.Context) (bool, error) {
	err := m.connections(ctx, func(looseObject) {})
	if errors.Is(err, ErrAccessRefused) {
		return false, nil
	}
	return err == nil, err
}

// hasConnection says whether an AMQP connection is listed with a client property of this value. It is only some seconds after it
// was opened.
func (m *management) hasConnection(ctx context.Context, property, id string) (found bool, err error) {
	err = m.connections(ctx, func(properties looseObject) { found = found || properties[property] == id })
	return found, err
}

// connections shows what the connections to the vhost say of themselves, as far as the user may see them: its own, or all with
// the tag monitoring or administrator.
func (m *management) connections(ctx context.Context, show func(properties looseObject)) error {
	type connection struct {
		Properties looseObject `json:"client_properties"`
	}
	path := "/vhosts/" + escape(m.VHost) + "/connections?columns=client_properties"
	_, err := m.get(ctx, path, "", streamedFunc(func(a *answer) error {
		return eachItem(a, func(item connection) (int64, error) {
			show(item.Properties)
			return 0, nil
		})
	}))
	return err
}

// toldPolicy is nothing known where the broker does not tell.
type toldPolicy struct {
	definition looseObject
	known      bool
}

func (p *toldPolicy) UnmarshalJSON(text []byte) error {
	p.known = true
	return json.Unmarshal(text, &p.definition)
}

// looseObject is a JSON object; RabbitMQ writes an empty one as [] at times.
type looseObject map[string]any

func (o *looseObject) UnmarshalJSON(text []byte) error {
	*o = nil
	if len(text) > 0 && text[0] == '[' {
		return nil
	}
	return json.Unmarshal(text, (*map[string]any)(o))
}

// policies lists policies, fences among them, and operator policies.
func (m *management) policies(ctx context.Context) ([]vhost.Policy, error) {
	patterns := &vhost.Patterns{}
	var all []vhost.Policy
	for _, operator := range []bool{false, true} {
		var items list[policyItem]
		path := "/policies/"
		if operator {
			path = "/operator-policies/"
		}
		if _, err := m.get(ctx, path+escape(m.VHost), "", &items); err != nil {
			return nil, err
		}
		for _, item := range items {
			all = append(all, item.observed(patterns, operator))
		}
	}
	return all, nil
}

// QueueInfo is what the management API says of one queue: the queue itself, which is current, and statistics, which are
// seconds old, or a minute on a busy broker, and which nothing that deletes may rest on.
type QueueInfo struct {
	Type      string
	State     string
	Leader    string
	Arguments map[string]any

	// Policy and Effective are statistics up to 4.0, and current from 4.3 on.
	Policy    string
	Effective toldPolicy `json:"effective_policy_definition"`

	// DeadLetters, the messages that wait to be dead-lettered, is nil without statistics.
	DeadLetters *int `json:"messages_dlx"`
}

const (
	withoutStatistics = "?disable_stats=true&columns=type,state,leader,arguments"
	withStatistics    = "?columns=policy,effective_policy_definition,messages_dlx"
)

// queueInfo asks for one queue; nil if there is no such queue.
func (m *management) queueInfo(ctx context.Context, queue, query string) (*QueueInfo, error) {
	path := "/queues/" + escape(m.VHost) + "/" + escape(queue)
	answer, gone := &QueueInfo{}, false
	err := m.do(ctx, http.MethodGet, path+query, "", nil, func(response *http.Response) error {
		switch response.StatusCode {
		case http.StatusOK:
			return m.decode(path, response.Body, answer)
		case http.StatusNotFound:
			gone = true
			return nil
		}
		return m.describe(http.MethodGet, path, m.refused(response))
	})
	if err != nil || gone {
		return nil, err
	}
	return answer, nil
}

// matchQueue begins the name of the exclusive queues by which AMQP is matched with the management API. The user needs the
// permission to configure them.
const matchQueue = "warren-link-"
