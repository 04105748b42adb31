package brokers

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
)

// ClusterSize is the number of nodes in a Cluster.
const ClusterSize = 3

// Cluster is a RabbitMQ cluster for one test, which may stop its nodes. Node numbers begin with 1.
type Cluster struct {
	tb     TB
	folder string
	nodes  []Broker
}

// NewCluster starts a cluster of a version (4.3, 4.0) and removes it when the test ends. If WARREN_TEST_CLUSTER names a
// directory, NewCluster uses the cluster there and does not remove it.
func NewCluster(tb TB, version string) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb, folder: os.Getenv("WARREN_TEST_CLUSTER")}
	if c.folder == "" {
		c.folder = tb.TempDir()
		tb.Cleanup(func() { c.script("remove", c.folder) })
	}
	c.nodes = parse(tb, c.script("start", c.folder, version), remedy, nil)
	return c
}

// Node returns the broker at a node. It stays valid while the node is stopped and started.
func (c *Cluster) Node(number int) Broker { return c.nodes[number-1] }

// Name returns RabbitMQ's name of a node.
func (c *Cluster) Name(number int) string {
	c.tb.Helper()
	var overview struct{ Node string }
	c.Node(number).get(c.tb, &overview, "overview")
	return overview.Node
}

// StartAll starts all stopped nodes at the same time, and waits until they form a cluster again.
func (c *Cluster) StartAll() {
	c.tb.Helper()
	c.script("start", c.folder)
}

// Start starts a node with its data, and waits until it responds.
func (c *Cluster) Start(number int) {
	c.tb.Helper()
	c.node("start", number)
}

// Stop stops a node gracefully.
func (c *Cluster) Stop(number int) {
	c.tb.Helper()
	c.node("stop", number)
}

// Kill kills a node, like a power failure.
func (c *Cluster) Kill(number int) {
	c.tb.Helper()
	c.node("kill", number)
}

// Eval evaluates an Erlang expression on a node.
func (c *Cluster) Eval(number int, expression string) string {
	c.tb.Helper()
	return c.script("eval", strconv.Itoa(number), expression, c.folder)
}

// Lead makes a running node the leader of a vhost's quorum queues. A queue whose member there lags keeps its leader.
func (c *Cluster) Lead(number int, vhost string) {
	c.tb.Helper()
	c.Eval(number, fmt.Sprintf(`[catch rabbit_quorum_queue:transfer_leadership(Q, '%s') || `+
		`Q <- rabbit_amqqueue:list(<<"%s">>), amqqueue:is_quorum(Q)].`, c.Name(number), vhost))
}

func (c *Cluster) node(action string, number int) {
	c.tb.Helper()
	c.script("node", action, strconv.Itoa(number), c.folder)
}

func (c *Cluster) script(args ...string) string {
	c.tb.Helper()
	return script(c.tb, append([]string{"cluster"}, args...)...)
}

// RemoveMember removes the member of a quorum queue from a node, and waits until the broker has done so.
func (v *VHost) RemoveMember(queue, node string) {
	v.tb.Helper()
	v.Broker.call(v.tb, http.MethodDelete, map[string]any{"node": node}, "queues", "quorum", v.Name, queue, "replicas", "delete")
}

// AddMember adds a member of a quorum queue on a node.
func (v *VHost) AddMember(queue, node string) {
	v.tb.Helper()
	v.Broker.call(v.tb, http.MethodPost, map[string]any{"node": node}, "queues", "quorum", v.Name, queue, "replicas", "add")
}
