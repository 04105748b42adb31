package faults

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
)

// threeNodes is the name of a set-up: a cluster of RabbitMQ 4.3. The other names are versions, which mean a single node.
const threeNodes = "4.3x3"

// setupsFrom returns the set-ups that WARREN_CHAOS_SETUPS names, separated by spaces.
func setupsFrom(unless ...string) []string {
	if given := strings.Fields(os.Getenv("WARREN_CHAOS_SETUPS")); len(given) > 0 {
		return given
	}
	return unless
}

// setupsAmong returns the given set-ups that WARREN_CHAOS_SETUPS does not leave out.
func setupsAmong(names ...string) []string {
	chosen := setupsFrom(names...)
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !slices.Contains(chosen, name) })
}

// setup is a private broker or cluster whose nodes may be killed.
type setup struct {
	nodes []brokers.Broker
	// lose kills a random node, and starts it again.
	lose func()
	// hasLeader reports whether the queue "orders" of a vhost has a leader; always true with other nodes.
	hasLeader func(vhost string) bool
	// removeMember removes the member of the queue "orders" of a vhost from a node, and members counts the members that run; nil without
	// other nodes.
	removeMember func(vhost string)
	members      func(vhost string) int
	// moveLeaders makes a random node the leader of all queues of a vhost; nil without other nodes.
	moveLeaders func(vhost string)
}

func newSetup(name string) *setup {
	GinkgoHelper()
	if name != threeNodes {
		private := brokers.NewPrivateOf(GinkgoTB(), name)
		return &setup{
			nodes: []brokers.Broker{private.Broker},
			lose: func() {
				private.Stop()
				private.Start()
			},
			hasLeader: func(vhost string) bool {
				status := private.Eval(fmt.Sprintf("rabbit_quorum_queue:status(<<%q>>, <<\"orders\">>).", vhost))
				return strings.Contains(status, `<<"Raft State">>,leader`)
			},
		}
	}
	version, _, _ := strings.Cut(threeNodes, "x")
	cluster, s := brokers.NewCluster(GinkgoTB(), version), &setup{hasLeader: func(string) bool { return true }}
	random := func() int { return 1 + rand.IntN(brokers.ClusterSize) }
	for number := range brokers.ClusterSize {
		s.nodes = append(s.nodes, cluster.Node(number+1))
	}
	s.lose = func() {
		node := random()
		cluster.Kill(node)
		cluster.Start(node)
	}
	const server = "{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<%q>>, queue, <<\"orders\">>)), {Server, _} = amqqueue:get_pid(Q), "
	s.removeMember = func(vhost string) {
		cluster.Eval(2, fmt.Sprintf(server+"ra:force_delete_server(quorum_queues, {Server, node()}).", vhost))
	}
	s.members = func(vhost string) int {
		running := 0
		for number := range brokers.ClusterSize {
			if strings.TrimSpace(cluster.Eval(number+1, fmt.Sprintf(server+"whereis(Server) =/= undefined.", vhost))) == "true" {
				running++
			}
		}
		return running
	}
	s.moveLeaders = func(vhost string) { cluster.Lead(random(), vhost) }
	return s
}

// node returns the vhost as accessed through one of the nodes.
func (s *setup) node(vhost *brokers.VHost, number int) *brokers.VHost {
	return vhost.Through(s.nodes[number%len(s.nodes)])
}

// recreating is a ConsumerQueue "orders" whose main queue is recreated by a change of its TTL.
type recreating struct {
	*world

	manager *Manager
	fences  *fenceWatch
	polling time.Duration // of await
	edits   int
	kills   []time.Time
}

func newRecreating(s *setup) *recreating {
	GinkgoHelper()
	w := newStraightWorld(s.nodes[0])
	r := &recreating{
		world: w, manager: startManager(w), fences: watchFences(w.VHost),
		polling: 20 * time.Millisecond, // a phase can take less than a tenth of a second
	}
	r.Queue("orders", r.spec(v1alpha1.RecreatePolicyWhenEmpty))
	r.settled(1)
	return r
}

// The exchanges to which publishers of the queue "orders" publish, with the routing key orders.
const (
	topicExchange  = "shop"
	directExchange = "till"
)

// spec is the ConsumerQueue with the TTL of the current edit.
func (r *recreating) spec(policy v1alpha1.RecreatePolicy) string {
	more := "publishersPastBindings: Accept"
	if policy == v1alpha1.RecreatePolicyMigrate {
		more += ", approval: Automatic, maxReadyMessages: 1000000"
	}
	return fmt.Sprintf(`{
		bindings: [
			{exchange: {name: %s, type: topic}, routingKeys: ["orders.#"]},
			{exchange: {name: %s, type: direct}, routingKeys: [orders]}],
		queue: {messageTTL: %dm}, retry: {delayTiers: [{delay: 10s}]},
		recreatePolicy: %s, recreation: {%s}}`, topicExchange, directExchange, 60_000+r.edits, policy, more)
}

// edit changes the TTL, so that the queue has to be recreated. It returns a function that reports how this recreation ended.
func (r *recreating) edit(policy v1alpha1.RecreatePolicy) func() *v1alpha1.RecreationResult {
	GinkgoHelper()
	former := ""
	if last := r.current().LastResult; last != nil {
		former = last.ID
	}
	r.edits++
	r.Queue("orders", r.spec(policy))
	return func() *v1alpha1.RecreationResult {
		if last := r.current().LastResult; last != nil && last.ID != former {
			return last
		}
		return nil
	}
}

// current returns the recreation in the status; zero if there is none.
func (r *recreating) current() v1alpha1.RecreationStatus {
	GinkgoHelper()
	cq := r.Get("orders")
	if cq.Status.Recreation == nil {
		return v1alpha1.RecreationStatus{}
	}
	return *cq.Status.Recreation
}

// restartManager kills the manager, and starts the next one.
func (r *recreating) restartManager() {
	GinkgoHelper()
	r.kills = append(r.kills, time.Now())
	r.manager.Kill()
	r.manager = startManager(r.world)
}

// namesNoLeader reports whether the status says that a queue may have no leader.
func (r *recreating) namesNoLeader() bool {
	GinkgoHelper()
	required := meta.FindStatusCondition(r.Get("orders").Status.Conditions, v1alpha1.ConditionRecreationRequired)
	return required != nil && strings.Contains(required.Message, "no leader")
}

// phases are the phases of a recreation under way, in order.
var phases = []v1alpha1.RecreationPhase{
	v1alpha1.RecreationDiverting, v1alpha1.RecreationEmptying, v1alpha1.RecreationSwapping, v1alpha1.RecreationGivingBack,
}

// awaitPhase waits until a recreation is in a phase or has passed it.
func (r *recreating) awaitPhase(phase v1alpha1.RecreationPhase, ended func() *v1alpha1.RecreationResult) {
	GinkgoHelper()
	r.await(func() bool { return r.hasReached(phase, ended) })
}

// hasReached reports whether a recreation is in a phase or has passed it.
func (r *recreating) hasReached(phase v1alpha1.RecreationPhase, ended func() *v1alpha1.RecreationResult) bool {
	GinkgoHelper()
	return slices.Index(phases, r.current().Phase) >= slices.Index(phases, phase) || ended() != nil
}

// recreationLimit is how long a recreation may take. After a crash, the fence stays closed for 30 s.
const recreationLimit = 2 * time.Minute

func (r *recreating) await(reached func() bool) {
	GinkgoHelper()
	Eventually(reached).WithTimeout(deadline.For(recreationLimit)).WithPolling(r.polling).Should(BeTrue(), func() string {
		cq := r.Get("orders")
		return fmt.Sprintf("recreation: %+v, conditions: %+v", cq.Status.Recreation, cq.Status.Conditions)
	})
}

// leftovers waits until nothing of Warren's is left in the vhost beside the topologies, and returns what is left after that.
func (r *recreating) leftovers() (left []string) {
	GinkgoHelper()
	InterceptGomegaFailures(func() {
		Eventually(func() []string {
			left = append(r.Differences(), r.VHost.Policies()...)
			return left
		}).WithTimeout(deadline.For(time.Minute)).WithPolling(time.Second).Should(BeEmpty())
	})
	return left
}

// span is a time between two moments.
type span struct{ begin, end time.Time }

func (s span) took() time.Duration { return s.end.Sub(s.begin) }

func (s span) overlaps(other span) bool {
	return s.begin.Before(other.end) && other.begin.Before(s.end)
}

func (s span) overlapsAny(others []span) bool { return slices.ContainsFunc(others, s.overlaps) }

// moments are spans without length.
func moments(times []time.Time) []span {
	spans := make([]span, len(times))
	for i, at := range times {
		spans[i] = span{at, at}
	}
	return spans
}

// fenceWatch records when fences of recreations are closed. It sees fences of managers that were killed, which no metric has.
type fenceWatch struct {
	mu     sync.Mutex
	closed map[string]span
}

// watchFences watches a vhost until the spec ends.
func watchFences(vhost *brokers.VHost) *fenceWatch {
	GinkgoHelper()
	watch := &fenceWatch{closed: map[string]span{}}
	readOften(func() {
		if policies, err := vhost.TryPolicies(); err == nil { // a broker that is down does not change a fence
			watch.observe(policies, time.Now())
		}
	})
	return watch
}

// readOften calls read every 20 ms until the spec ends.
func readOften(read func()) {
	GinkgoHelper()
	stop, stopped := make(chan struct{}), make(chan struct{})
	DeferCleanup(func() {
		close(stop)
		<-stopped
	})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				read()
			}
		}
	}()
}

func (f *fenceWatch) observe(policies map[string]map[string]any, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, definition := range policies {
		if !strings.HasPrefix(name, "warren-recreate-") || definition["max-length"] != float64(0) {
			continue
		}
		if fence, known := f.closed[name]; known {
			f.closed[name] = span{fence.begin, now}
		} else {
			f.closed[name] = span{now, now}
		}
	}
}

// stood returns for how long fences were closed, in ascending order: fences that overlap one of the faults, and the others.
func (f *fenceWatch) stood(faults []span) (calm, disturbed []time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fence := range f.closed {
		if fence.overlapsAny(faults) {
			disturbed = append(disturbed, fence.took())
		} else {
			calm = append(calm, fence.took())
		}
	}
	slices.Sort(calm)
	slices.Sort(disturbed)
	return calm, disturbed
}

// describeTimes returns the number of ascending times, their median and the longest.
func describeTimes(sorted []time.Duration) string {
	if len(sorted) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d: median %v, longest %v", len(sorted),
		median(sorted).Round(10*time.Millisecond), longest(sorted).Round(10*time.Millisecond))
}

// declarationWatch records when the main queue is declared again. Each declaration has another TTL.
type declarationWatch struct {
	mu   sync.Mutex
	ttl  int64
	read time.Time // when the queue had this TTL most recently
	// declared is, for each declaration, the time between the last reading before it and the first one after it.
	declared []span
}

// watchDeclarations watches the queue "orders" until the spec ends.
func watchDeclarations(vhost *brokers.VHost) *declarationWatch {
	GinkgoHelper()
	watch := &declarationWatch{}
	readOften(func() {
		asked := time.Now()
		if ttl, err := vhost.TryTTL("orders"); err == nil {
			watch.observe(ttl, asked, time.Now())
		}
	})
	return watch
}

// observe records that the broker was asked for the TTL, and when the answer arrived.
func (d *declarationWatch) observe(ttl int64, asked, answered time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.read.IsZero() && ttl != d.ttl {
		d.declared = append(d.declared, span{d.read, answered})
	}
	d.ttl, d.read = ttl, asked
}

// sawOne reports whether the queue was declared again.
func (d *declarationWatch) sawOne() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.declared) > 0
}

// youngWith returns the declaration before a confirm, and the node that was lost while the declared queue was young and had the
// message. RabbitMQ had not written the name of that queue to disk, and started the queue again without its messages.
func (d *declarationWatch) youngWith(confirmed time.Time, lost []span) (declared, node span, found bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, declared := range d.declared {
		for _, node := range lost {
			if confirmed.After(declared.begin) && confirmed.Before(node.end) && node.begin.Before(declared.end.Add(young)) {
				return declared, node, true
			}
		}
	}
	return span{}, span{}, false
}

// recreationRow adds a row to the table at the end of the suite. Rows of the same title belong together.
func recreationRow(title string, cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		texts[i] = fmt.Sprint(cell)
	}
	AddReportEntry(title, ReportEntryVisibilityNever, strings.Join(texts, "\t"))
}

// recreationTitles are the columns of the tables.
var recreationTitles = map[string]string{
	chaosTitle: "set-up\trecreated\twent back\tkills of manager, node; leader moves\twithout a leader\tconfirmed\tlost\t" +
		"lost with a young queue\tduplicates\tlongest confirm\tpast bindings: confirmed, nacks, longest\tfences\tfences beside a kill\tleft",
	benchTitle: "set-up\twhat\tbar\tmeasured",
}

var _ = ReportAfterSuite("the tables of recreations", func(report Report) {
	rows := map[string][]string{}
	for _, spec := range report.SpecReports {
		for _, entry := range spec.ReportEntries {
			if recreationTitles[entry.Name] != "" {
				rows[entry.Name] = append(rows[entry.Name], entry.StringRepresentation())
			}
		}
	}
	for _, title := range slices.Sorted(maps.Keys(rows)) {
		table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintf(table, "\n%s\n%s\n%s\n", title, recreationTitles[title], strings.Join(rows[title], "\n"))
		_ = table.Flush()
	}
})

func haveResult(result v1alpha1.RecreationOutcome) types.GomegaMatcher {
	return HaveValue(HaveField("Result", result))
}
