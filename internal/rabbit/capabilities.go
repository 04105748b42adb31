package rabbit

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"unicode/utf8"

	"github.com/warren-mq/warren/internal/vhost"
)

// Capabilities are what this broker lets this user do.
type Capabilities struct {
	// Definitions: the whole vhost is read with one request; it takes the tag administrator, and a vhost whose name is
	// ASCII.
	Definitions bool
	// Events: the plugin rabbitmq_event_exchange announces changes in this vhost.
	Events bool
	// Policies: the user may write policies; it takes the tag policymaker or administrator.
	Policies bool
	// DelayedRedelivery: quorum queues know x-delayed-retry-*, from RabbitMQ 4.3 on.
	DelayedRedelivery bool
	// Statistics: the broker counts messages and lists connections, which management_agent.disable_metrics_collector ends.
	// Nothing that deletes rests on them.
	Statistics bool
}

// contact is what is read once after each (re)connect.
type contact struct {
	version      string
	identity     vhost.Cluster
	tags         []string
	capabilities Capabilities
	// upgrading: the nodes have different versions.
	upgrading bool
	// nodes is how many nodes the cluster has; zero if the user may not know.
	nodes int
	// builtin are the exchanges amq.*, which definitions leave out.
	builtin map[string]vhost.Exchange
}

const eventExchange = "amq.rabbitmq.event"

// whoami returns the tags of the user, sorted.
func (m *management) whoami(ctx context.Context) ([]string, error) {
	var whoami struct{ Tags []string }
	_, err := m.get(ctx, "/whoami", "", &whoami)
	slices.Sort(whoami.Tags)
	return whoami.Tags, err
}

// meet asks the broker who it is and what the user may do.
func (m *management) meet(ctx context.Context) (*contact, error) {
	tags, err := m.whoami(ctx)
	if err != nil {
		return nil, err
	}
	m.opened.Store(false)
	identity, answer, err := m.identity(ctx)
	if err != nil {
		return nil, err
	}
	versions, nodes := []string{answer.Version}, []node(nil)
	administrator := slices.Contains(tags, "administrator")
	if administrator || slices.Contains(tags, "monitoring") {
		if nodes, err = m.nodes(ctx, ",rabbitmq_version,applications"); err != nil {
			return nil, err
		}
		versions = append(versions, versionsOf(nodes)...)
	}
	builtin, err := m.builtinExchanges(ctx, administrator)
	if err != nil {
		return nil, err
	}
	version := cutTo(vhost.Lowest(versions...), longestVersion)
	parsed, err := vhost.ParseVersion(version)
	if err != nil {
		return nil, m.describe(http.MethodGet, "/overview", m.errs.Fail(ErrUnreachable, "the answer is not RabbitMQ's: %v", err))
	}
	_, events := builtin[eventExchange]
	return &contact{
		version:  version,
		identity: identity,
		tags:     tags,
		capabilities: Capabilities{
			Definitions:       administrator && definitionsWork(m.VHost),
			Events:            events,
			Policies:          administrator || slices.Contains(tags, "policymaker"),
			DelayedRedelivery: parsed.AtLeast(vhost.RabbitMQ43),
			Statistics:        !answer.StatisticsDisabled,
		},
		upgrading: slices.ContainsFunc(versions, func(other string) bool { return other != version }),
		nodes:     len(nodes),
		builtin:   builtin,
	}, nil
}

// overview is what a node says of itself and of its cluster.
type overview struct {
	Version            string `json:"rabbitmq_version"`
	ClusterName        string `json:"cluster_name"`
	StatisticsDisabled bool   `json:"disable_stats"`
}

// identity asks which cluster answers, and what the node that does says of itself. The id of a cluster can be read with the
// tags policymaker and administrator.
func (m *management) identity(ctx context.Context) (found vhost.Cluster, answer overview, err error) {
	if _, err := m.get(ctx, "/overview?columns=rabbitmq_version,cluster_name,disable_stats", "", &answer); err != nil {
		return found, answer, err
	}
	var parameters []struct {
		Name  string
		Value any
	}
	_, err = m.get(ctx, "/global-parameters", "", &parameters)
	if err != nil && !errors.Is(err, ErrAccessRefused) {
		return found, answer, err
	}
	if len(answer.Version) > longestVersion || len(answer.ClusterName) > longestClusterName {
		tooLong := m.errs.Fail(ErrUnreachable, "the answer is not RabbitMQ's: a name is too long")
		return found, answer, m.describe(http.MethodGet, "/overview", tooLong)
	}
	found = vhost.Cluster{Name: answer.ClusterName, Endpoint: m.Endpoint}
	for _, parameter := range parameters {
		if id, text := parameter.Value.(string); text && parameter.Name == "internal_cluster_id" {
			found.ID = hashedID(id)
		}
	}
	return found, answer, nil
}

// definitionsWork is false for vhosts whose names go beyond ASCII. RabbitMQ 4.0 to 4.3 puts the name into a sentence of
// the answer, in Latin-1, and then cannot encode it: 4.0 answers 500, 4.3 closes the connection in the middle.
func definitionsWork(vhost string) bool {
	for _, b := range []byte(vhost) {
		if b >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// builtinExchanges lists the exchanges amq.* of the vhost. An administrator sees a vhost through definitions even
// without a permission in it; the listing then refuses, and the exchanges that every vhost has must do.
func (m *management) builtinExchanges(ctx context.Context, administrator bool) (map[string]vhost.Exchange, error) {
	builtin := map[string]vhost.Exchange{}
	for name, kind := range map[string]string{
		"amq.direct": "direct", "amq.fanout": "fanout", "amq.topic": "topic", "amq.headers": "headers", "amq.match": "headers",
	} {
		builtin[name] = vhost.Exchange{Type: kind, Durable: true}
	}
	var page struct{ Items []exchangeItem }
	_, err := m.get(ctx, "/exchanges/"+escape(m.VHost)+
		"?page=1&page_size=100&disable_stats=true&use_regex=true&name=%5Eamq%5C.&columns="+exchangeColumns, "", &page)
	if err != nil && administrator && errors.Is(err, ErrAccessRefused) {
		return builtin, nil
	}
	if err != nil {
		return nil, err
	}
	for _, item := range page.Items {
		builtin[item.Name] = item.observed()
	}
	return builtin, nil
}
