package management

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/vhost"
)

// HasQueue says whether the vhost has a queue, exclusive ones included.
func (m *Client) HasQueue(ctx context.Context, name string) (exists bool, err error) {
	path := "/queues/" + Escape(m.VHost) + "/" + Escape(name)
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

// HasVHost returns ErrVHostNotFound if the vhost is not there. It asks for an exchange that every vhost has, for only
// administrators may ask for the vhost.
func (m *Client) HasVHost(ctx context.Context) error {
	var exchange struct{ Name string }
	_, err := m.Get(ctx, "/exchanges/"+Escape(m.VHost)+"/"+Escape("amq.direct")+"?disable_stats=true&columns=name", "", &exchange)
	if errors.Is(err, brokererr.ErrAccessRefused) { // there it is
		return nil
	}
	return err
}

// TellsConnections says whether this user can see connections of its own, where the broker gathers statistics.
func (m *Client) TellsConnections(ctx context.Context) (bool, error) {
	err := m.Connections(ctx, func(LooseObject) {})
	if errors.Is(err, brokererr.ErrAccessRefused) {
		return false, nil
	}
	return err == nil, err
}

// HasConnection says whether an AMQP connection is listed with a client property of this value. It is only some seconds after it
// was opened.
func (m *Client) HasConnection(ctx context.Context, property, id string) (found bool, err error) {
	err = m.Connections(ctx, func(properties LooseObject) { found = found || properties[property] == id })
	return found, err
}

// Connections shows what the connections to the vhost say of themselves, as far as the user may see them: its own, or all with
// the tag monitoring or administrator.
func (m *Client) Connections(ctx context.Context, show func(properties LooseObject)) error {
	type connection struct {
		Properties LooseObject `json:"client_properties"`
	}
	path := "/vhosts/" + Escape(m.VHost) + "/connections?columns=client_properties"
	_, err := m.Get(ctx, path, "", StreamedFunc(func(a *Answer) error {
		return EachItem(a, func(item connection) (int64, error) {
			show(item.Properties)
			return 0, nil
		})
	}))
	return err
}

// toldPolicy is nothing known where the broker does not tell.
type toldPolicy struct {
	Definition LooseObject
	Known      bool
}

func (p *toldPolicy) UnmarshalJSON(text []byte) error {
	p.Known = true
	return json.Unmarshal(text, &p.Definition)
}

// LooseObject is a JSON object; RabbitMQ writes an empty one as [] at times.
type LooseObject map[string]any

// UnmarshalJSON reads an object, or an array for an empty one.
func (o *LooseObject) UnmarshalJSON(text []byte) error {
	*o = nil
	if len(text) > 0 && text[0] == '[' {
		return nil
	}
	return json.Unmarshal(text, (*map[string]any)(o))
}

// Policies lists policies, fences among them, and operator policies.
func (m *Client) Policies(ctx context.Context) ([]vhost.Policy, error) {
	patterns := &vhost.Patterns{}
	var all []vhost.Policy
	for _, operator := range []bool{false, true} {
		var items List[PolicyItem]
		path := "/policies/"
		if operator {
			path = "/operator-policies/"
		}
		if _, err := m.Get(ctx, path+Escape(m.VHost), "", &items); err != nil {
			return nil, err
		}
		for _, item := range items {
			all = append(all, item.Observed(patterns, operator))
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

// largestArguments is how much memory the arguments of a queue may take, in bytes. A ConsumerQueue can set 32 arguments of 1,024 bytes.
const largestArguments = 64 << 10

// checkArguments refuses a queue whose arguments are not worth keeping.
func (m *Client) checkArguments(info *QueueInfo) error {
	if SizeOf(info.Arguments) <= largestArguments {
		return nil
	}
	return m.errs.TooLarge(largestArguments, "what the arguments of a queue take is larger")
}

// The columns of one queue.
const (
	WithoutStatistics = "?disable_stats=true&columns=type,state,leader,arguments"
	WithStatistics    = "?columns=policy,effective_policy_definition,messages_dlx"
)

// QueueInfo asks for one queue; nil if there is no such queue.
func (m *Client) QueueInfo(ctx context.Context, queue, query string) (*QueueInfo, error) {
	path := "/queues/" + Escape(m.VHost) + "/" + Escape(queue)
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
	if err := m.checkArguments(answer); err != nil {
		return nil, m.describe(http.MethodGet, path, err)
	}
	return answer, nil
}

// MatchQueue begins the name of the exclusive queues by which AMQP is matched with the management API. The user needs the
// permission to configure them.
const MatchQueue = "warren-link-"

// BindingsOf lists the bindings of a queue, but for the implicit one of the default exchange.
func (m *Client) BindingsOf(ctx context.Context, queue string) ([]vhost.Binding, error) {
	var items List[BindingItem]
	path := "/queues/" + Escape(m.VHost) + "/" + Escape(queue) + "/bindings?columns=" + BindingColumns
	if _, err := m.Get(ctx, path, "", &items); err != nil {
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

// Cluster asks which cluster answers.
func (m *Client) Cluster(ctx context.Context) (vhost.Cluster, error) {
	found, _, err := m.Identity(ctx)
	return found, err
}
