package management

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/text"
	"github.com/warren-mq/warren/internal/vhost"
)

// Capabilities are the features that this broker supports and this user may use.
type Capabilities struct {
	// Definitions: one request reads the whole vhost. The user needs the tag administrator, and the name of the vhost must be ASCII.
	Definitions bool
	// Events: the plugin rabbitmq_event_exchange announces changes in this vhost.
	Events bool
	// Policies: the user may write policies, because it has the tag policymaker or administrator.
	Policies bool
	// DelayedRedelivery: quorum queues support x-delayed-retry-*, from RabbitMQ 4.3 on.
	DelayedRedelivery bool
	// Statistics: the broker counts messages and lists connections, unless management_agent.disable_metrics_collector is set. No
	// deletion may depend on statistics.
	Statistics bool
}

// BrokerInfo is the result of Probe, which runs after each new connection.
type BrokerInfo struct {
	Version  string
	Identity vhost.Cluster
	// Tags are the tags that Whoami returns.
	Tags         []string
	Capabilities Capabilities
	// Upgrading: the nodes run different versions.
	Upgrading bool
	// Nodes is how many nodes the cluster has; zero if the user may not list them.
	Nodes int
	// Builtin are the exchanges amq.*, which definitions do not contain.
	Builtin map[string]vhost.Exchange
}

// EventExchange is the exchange of the plugin rabbitmq_event_exchange.
const EventExchange = "amq.rabbitmq.event"

// Whoami returns the tags of the user that grant rights in the management API, sorted. It drops all other tags, because a broker may send
// any number of them, and each connection keeps the result.
func (c *Client) Whoami(ctx context.Context) ([]string, error) {
	var whoami struct{ Tags []string }
	_, err := c.Get(ctx, "/whoami", "", &whoami)
	var tags []string
	for _, tag := range []string{"administrator", "management", "monitoring", "policymaker"} {
		if slices.Contains(whoami.Tags, tag) {
			tags = append(tags, tag)
		}
	}
	return tags, err
}

// Probe reads the identity and the version of the broker, and the capabilities of the user.
func (c *Client) Probe(ctx context.Context) (*BrokerInfo, error) {
	tags, err := c.Whoami(ctx)
	if err != nil {
		return nil, err
	}
	c.opened.Store(false)
	identity, answer, err := c.Identity(ctx)
	if err != nil {
		return nil, err
	}
	versions, nodes := []string{answer.Version}, []Node(nil)
	administrator := slices.Contains(tags, "administrator")
	if administrator || slices.Contains(tags, "monitoring") {
		if nodes, err = c.Nodes(ctx, ",rabbitmq_version,applications"); err != nil {
			return nil, err
		}
		versions = append(versions, versionsOf(nodes)...)
	}
	builtin, err := c.builtinExchanges(ctx, administrator)
	if err != nil {
		return nil, err
	}
	version := text.Truncate(vhost.Lowest(versions...), LongestVersion)
	parsed, err := vhost.ParseVersion(version)
	if err != nil {
		failure := c.errs.Fail(brokererr.ErrUnreachable, "the response is not from RabbitMQ: %v", err)
		return nil, c.describe(http.MethodGet, "/overview", failure)
	}
	_, events := builtin[EventExchange]
	return &BrokerInfo{
		Version:  version,
		Identity: identity,
		Tags:     tags,
		Capabilities: Capabilities{
			Definitions:       administrator && definitionsWork(c.VHost),
			Events:            events,
			Policies:          administrator || slices.Contains(tags, "policymaker"),
			DelayedRedelivery: parsed.AtLeast(vhost.RabbitMQ43),
			Statistics:        !answer.StatisticsDisabled,
		},
		Upgrading: slices.ContainsFunc(versions, func(other string) bool { return other != version }),
		Nodes:     len(nodes),
		Builtin:   builtin,
	}, nil
}

// Overview describes the node that answers, and its cluster.
type Overview struct {
	Version            string `json:"rabbitmq_version"`
	ClusterName        string `json:"cluster_name"`
	StatisticsDisabled bool   `json:"disable_stats"`
}

// Identity returns the cluster that answers, and the overview of the node that answers. The ID of the cluster is empty unless the user
// has the tag policymaker or administrator.
func (c *Client) Identity(ctx context.Context) (found vhost.Cluster, answer Overview, err error) {
	if _, err := c.Get(ctx, "/overview?columns=rabbitmq_version,cluster_name,disable_stats", "", &answer); err != nil {
		return found, answer, err
	}
	var parameters []struct {
		Name  string
		Value any
	}
	_, err = c.Get(ctx, "/global-parameters", "", &parameters)
	if err != nil && !errors.Is(err, brokererr.ErrAccessRefused) {
		return found, answer, err
	}
	if len(answer.Version) > LongestVersion || len(answer.ClusterName) > LongestClusterName {
		tooLong := c.errs.Fail(brokererr.ErrUnreachable, "the response is not from RabbitMQ: a name is too long")
		return found, answer, c.describe(http.MethodGet, "/overview", tooLong)
	}
	found = vhost.Cluster{Name: answer.ClusterName, Endpoint: c.Endpoint}
	for _, parameter := range parameters {
		if id, isText := parameter.Value.(string); isText && parameter.Name == "internal_cluster_id" {
			found.ID = vhost.HashedClusterID(id)
		}
	}
	return found, answer, nil
}

// definitionsWork reports whether the name of a vhost is ASCII. RabbitMQ 4.0 to 4.3 puts the name into a sentence of the definitions, in
// Latin-1, and cannot encode other names. In that case, 4.0 answers 500, and 4.3 closes the connection in the middle of the answer.
func definitionsWork(name string) bool {
	for _, b := range []byte(name) {
		if b >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// maxBuiltin is the maximum number of exchanges amq.* that are listed. RabbitMQ 4.3 has eight.
const maxBuiltin = 100

// builtinExchanges lists the exchanges amq.* of the vhost. Without a permission in the vhost, an administrator can read definitions but not
// this listing. Then builtinExchanges returns only the exchanges that every vhost has. Each connection keeps the result, so its size is
// limited. RabbitMQ declares these exchanges without arguments.
func (c *Client) builtinExchanges(ctx context.Context, administrator bool) (map[string]vhost.Exchange, error) {
	builtin := map[string]vhost.Exchange{}
	for name, kind := range map[string]string{
		"amq.direct": "direct", "amq.fanout": "fanout", "amq.topic": "topic", "amq.headers": "headers", "amq.match": "headers",
	} {
		builtin[name] = vhost.Exchange{Type: kind, Durable: true}
	}
	var page struct{ Items []ExchangeItem }
	path := "/exchanges/" + Escape(c.VHost)
	_, err := c.Get(ctx, path+"?page=1&page_size="+strconv.Itoa(maxBuiltin)+
		"&disable_stats=true&use_regex=true&name=%5Eamq%5C.&columns="+ExchangeColumns, "", &page)
	if err != nil && administrator && errors.Is(err, brokererr.ErrAccessRefused) {
		return builtin, nil
	}
	if err != nil {
		return nil, err
	}
	if len(page.Items) > maxBuiltin {
		tooMany := c.errs.Fail(brokererr.ErrUnreachable, "the response is not from RabbitMQ: more than %d exchanges in a page", maxBuiltin)
		return nil, c.describe(http.MethodGet, path, tooMany)
	}
	for _, item := range page.Items {
		if max(len(item.Name), len(item.Type)) <= vhost.MaxNameLength {
			item.Arguments = nil
			builtin[item.Name] = item.Observed()
		}
	}
	return builtin, nil
}
