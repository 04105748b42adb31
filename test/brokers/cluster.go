package brokers

import (
	"net/http"
	"os"
	"strconv"
)

// ClusterSize is how many nodes a Cluster has.
const ClusterSize = 3

// Cluster is a RabbitMQ cluster of one test's own, whose nodes the test may stop. Nodes have numbers from 1 on.
type Cluster struct {
	tb     TB
	folder string
	nodes  []Broker
}

// NewCluster starts a cluster of the given version (4.3, 4.0), which is removed when the test ends. The one in the folder
// that WARREN_TEST_CLUSTER names is used as it is, and stays.
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

// Node is the broker at one node: it stays the same while the node is stopped and started.
func (c *Cluster) Node(number int) Broker { return c.nodes[number-1] }

// Name is what RabbitMQ calls a node.
func (c *Cluster) Name(number int) string {
	c.tb.Helper()
	var overview struct{ Node string }
	c.Node(number).get(c.tb, &overview, "overview")
	return overview.Node
}

// StartAll starts the nodes that do not run, all at the same time, and returns when they are one cluster again.
func (c *Cluster) StartAll() {
	c.tb.Helper()
	c.script("start", c.folder)
}

// Start starts a node with all that it had when it ended, and returns when it answers.
func (c *Cluster) Start(number int) {
	c.tb.Helper()
	c.node("start", number)
}

// Stop ends a node in good order.
func (c *Cluster) Stop(number int) {
	c.tb.Helper()
	c.node("stop", number)
}

// Kill ends a node as a power cut would.
func (c *Cluster) Kill(number int) {
	c.tb.Helper()
	c.node("kill", number)
}

// Eval has a node evaluate an Erlang expression.
func (c *Cluster) Eval(number int, expression string) string {
	c.tb.Helper()
	return c.script("eval", strconv.Itoa(number), expression, c.folder)
}

func (c *Cluster) node(action string, number int) {
	c.tb.Helper()
	c.script("node", action, strconv.Itoa(number), c.folder)
}

func (c *Cluster) script(args ...string) string {
	c.tb.Helper()
	return script(c.tb, append([]string{"cluster"}, args...)...)
}

// RemoveMember takes the member of a quorum queue off a node, and returns when the broker has done so.
func (v *VHost) RemoveMember(queue, node string) {
	v.tb.Helper()
	v.Broker.call(v.tb, http.MethodDelete, map[string]any{"node": node}, "queues", "quorum", v.Name, queue, "replicas", "delete")
}

// AddMember gives a quorum queue a member on a node.
func (v *VHost) AddMember(queue, node string) {
	v.tb.Helper()
	v.Broker.call(v.tb, http.MethodPost, map[string]any{"node": node}, "queues", "quorum", v.Name, queue, "replicas", "add")
}
