package e2e

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/test/brokers"
	. "github.com/warren-mq/warren/test/testenv"
)

var update = flag.Bool("update", false, "write testdata/headers/*.golden anew")

// way is a way in which a message reaches the dead-letter queue.
type way struct {
	spec string
	// expiration is a property of the message.
	expiration string
	// retries reports whether there is a delay tier.
	retries bool
	// dies moves the message from the main queue to the dead-letter queue. parks reports whether a consumer publishes it there.
	dies  func(w *world)
	parks bool
	// diesAgain does the same after a Redrive; dies by default.
	diesAgain func(w *world)
}

// ways are the ways with the main queue orders.
var ways = map[string]way{
	"publish": {spec: `delayTiers: [{delay: 1s}]`, retries: true, dies: rejects},
	"expired": {spec: `delayTiers: [{delay: 1s}]`, retries: true, expiration: "50", dies: expires, diesAgain: rejects},
	"reject":  {spec: `strategy: Reject, delayTiers: [{delay: 1s}]`, retries: true, dies: rejectsAndParks, parks: true},
	"requeue": {spec: `strategy: Requeue, maxAttempts: 2`, dies: requeues},
}

func expires(w *world) {
	Eventually(func() int { return w.VHost.Ready("orders.dlq") }).Should(Equal(1))
}

func rejects(w *world) {
	w.deliver("orders", func(message amqp.Delivery) error { return message.Reject(false) })
}

// requeues fails as often as the delivery limit allows. RabbitMQ counts the deliveries.
func requeues(w *world) {
	for w.VHost.Ready("orders.dlq") == 0 {
		w.deliver("orders", func(message amqp.Delivery) error { return message.Reject(true) })
		Eventually(func() int { return w.VHost.Ready("orders.dlq") + w.VHost.Ready("orders") }).Should(Equal(1))
	}
}

// rejectsAndParks fails twice, with the tier in between. The consumer parks a copy with all headers, like a careless client.
func rejectsAndParks(w *world) {
	rejects(w)
	w.deliver("orders", func(message amqp.Delivery) error {
		w.VHost.Send("", "orders.dlq", amqp.Publishing{
			Headers: message.Headers, Body: message.Body, DeliveryMode: amqp.Persistent, ContentType: message.ContentType,
			ContentEncoding: message.ContentEncoding, Priority: message.Priority, CorrelationId: message.CorrelationId,
			ReplyTo: message.ReplyTo, Expiration: message.Expiration, MessageId: message.MessageId, Timestamp: message.Timestamp,
			Type: message.Type, UserId: message.UserId, AppId: message.AppId,
		})
		return message.Ack(false)
	})
}

// deliver waits for a message of a queue and settles it. If settle is nil, it requeues the message, like a browse.
func (w *world) deliver(queue string, settle func(amqp.Delivery) error) amqp.Delivery {
	GinkgoHelper()
	messages, stop := w.oneByOne(queue)
	var message amqp.Delivery
	Eventually(messages).Should(Receive(&message))
	if settle != nil {
		Expect(settle(message)).To(Succeed())
	}
	stop()
	return message
}

// oneByOne consumes a queue with a prefetch of one until stop is called.
func (w *world) oneByOne(queue string) (messages <-chan amqp.Delivery, stop func()) {
	GinkgoHelper()
	connection, err := w.VHost.Connect("one by one")
	Expect(err).NotTo(HaveOccurred())
	end := func() { _ = connection.Close() }
	DeferCleanup(end) // if the spec fails before
	channel, err := connection.Channel()
	Expect(err).NotTo(HaveOccurred())
	Expect(channel.Qos(1, 0, false)).To(Succeed())
	messages, err = channel.Consume(queue, "", false, false, false, false, nil)
	Expect(err).NotTo(HaveOccurred())
	return messages, func() {
		GinkgoHelper()
		Expect(channel.Close()).To(Succeed())
		end()
	}
}

// complete is a message with every property that RabbitMQ accepts, and headers of several types.
func (w *world) complete(expiration string) amqp.Publishing {
	return amqp.Publishing{
		ContentType: "application/json", ContentEncoding: "identity", DeliveryMode: amqp.Persistent, Priority: 5, CorrelationId: "c1",
		ReplyTo: "replies", Expiration: expiration, MessageId: "m1", Timestamp: time.Unix(1767225600, 0), Type: "order",
		UserId: w.VHost.Broker.Username, AppId: "shop", Body: []byte(`{"n": 1}`),
		Headers: amqp.Table{
			"CC": []any{"copied"}, "BCC": []any{"hidden"}, "tenant": "acme", "x-retry-count": int32(2), "x-exception-type": "TimeoutException",
			"nested": amqp.Table{"list": []any{int64(1), "two", true}}, "price": amqp.Decimal{Scale: 2, Value: 1250}, "nothing": nil,
		},
	}
}

var _ = Describe("Headers and properties before and after a Redrive", func() {
	for _, name := range slices.Sorted(maps.Keys(ways)) {
		onEachBroker("match the golden table: "+name, func(broker brokers.Broker) {
			w, how := newWorld(broker), ways[name]
			for _, queue := range []string{"copied", "hidden"} {
				w.VHost.DeclareQueue(queue, map[string]any{"x-queue-type": "quorum"})
			}
			w.Queue("orders", `{bindings: [{exchange: {name: shop, type: topic}, routingKeys: [placed]}], retry: {`+how.spec+`}}`)
			w.Queue("aside", `{}`)
			w.Ready("orders")
			w.Ready("aside")
			w.VHost.Bind("shop", "copied", "copied", nil)
			w.VHost.Bind("shop", "hidden", "hidden", nil)

			table := &headerTable{world: w}
			destinations := []string{"Main", "Original", "ConsumerQueue"}
			if how.retries {
				destinations = append(destinations, "Retry")
			}
			copies, hidden := 0, 0 // messages in other queues because of CC and BCC, without a Redrive
			for _, destination := range destinations {
				w.VHost.Send("shop", "placed", w.complete(how.expiration))
				how.dies(w)
				w.deliver("orders.dlq", nil) // so that RabbitMQ has counted a delivery
				dead := w.deliver("orders.dlq", nil)
				table.add("dead letter", dead)
				if how.expiration == "" {
					copies++
					hidden++
				}
				if _, kept := dead.Headers["CC"]; kept && how.parks {
					copies++
				}
				to := "orders"
				if destination == "ConsumerQueue" {
					to = "aside"
				}
				table.add(destination, w.redriven(destination, to, destination == "Main", dead))
				if destination != "Main" {
					continue
				}
				if how.diesAgain == nil {
					how.diesAgain = how.dies
				}
				how.diesAgain(w)
				again := w.deliver("orders.dlq", func(message amqp.Delivery) error { return message.Ack(false) })
				table.add("Main, dead again", again)
				Expect(countsOf(again)).To(HaveEach(BeEquivalentTo(1)), "a consumer that counts by x-death starts with 1")
				Expect(countsOf(again)).NotTo(BeEmpty())
			}
			Eventually(func() int { return w.VHost.Ready("copied") }).Should(Equal(copies), "a Redrive publishes with CC")
			Eventually(func() int { return w.VHost.Ready("hidden") }).Should(Equal(hidden), "a Redrive publishes with BCC")
			expectGolden(name, broker, table.String())
		}, ExtendedUnless(name == "publish"))
	}
})

// redriven moves the dead letter by a Redrive and returns the delivery to a consumer. back requeues the message.
func (w *world) redriven(destination, queue string, back bool, dead amqp.Delivery) amqp.Delivery {
	GinkgoHelper()
	name := strings.ToLower(destination)
	more := ""
	if destination == "ConsumerQueue" {
		more = ", consumerQueueRef: {name: aside}"
	}
	// The admission policy, if another spec has installed it, allows no other name.
	w.Redrive(name, fmt.Sprintf(`{consumerQueueRef: {name: orders}, requestedBy: admin, reason: a test,
		destination: {type: %s%s}}`, destination, more))
	Expect(*w.completed(name).Moved).To(BeEquivalentTo(1))
	settle := func(message amqp.Delivery) error { return message.Ack(false) }
	if back {
		settle = nil
	}
	message := w.deliver(queue, settle)
	Expect(message.Body).To(Equal(dead.Body))
	Expect(message.Headers).To(HaveKeyWithValue("x-warren-redrive-id", string(w.GetRedrive(name).UID)))
	if deaths, _ := dead.Headers["x-death"].([]any); len(deaths) > 0 {
		died := deaths[0].(amqp.Table)["time"].(time.Time)
		Expect(message.Headers).To(HaveKeyWithValue("x-warren-origin-time", died.UTC().Format(time.RFC3339)))
	}
	return message
}

// countsOf returns the counts in x-death.
func countsOf(message amqp.Delivery) []any {
	deaths, _ := message.Headers["x-death"].([]any)
	counts := make([]any, len(deaths))
	for i, death := range deaths {
		counts[i] = death.(amqp.Table)["count"]
	}
	return counts
}

// series returns a broker's version without the patch number.
func series(broker brokers.Broker) string {
	parts := strings.Split(broker.Version, ".")
	return parts[0] + "." + parts[1]
}

// headerTable has one column for each state of a message, and one row for each property and header.
type headerTable struct {
	world   *world
	columns []string
	cells   map[string]map[string]string // by column, then row
}

// add adds a column. The column of the dead letter is the same for each destination.
func (h *headerTable) add(column string, message amqp.Delivery) {
	GinkgoHelper()
	cells := h.read(message)
	if known, there := h.cells[column]; there {
		Expect(cells).To(Equal(known), column)
		return
	}
	if h.cells == nil {
		h.cells = map[string]map[string]string{}
	}
	h.columns = append(h.columns, column)
	h.cells[column] = cells
}

// read formats a delivery, with placeholders for values that differ in each run.
func (h *headerTable) read(message amqp.Delivery) map[string]string {
	cells := map[string]string{
		"content-type": h.written(message.ContentType), "content-encoding": h.written(message.ContentEncoding),
		"delivery-mode": h.written(message.DeliveryMode), "priority": h.written(message.Priority),
		"correlation-id": h.written(message.CorrelationId), "reply-to": h.written(message.ReplyTo), "expiration": h.written(message.Expiration),
		"message-id": h.written(message.MessageId), "timestamp": fmt.Sprint(message.Timestamp.Unix()), "type": h.written(message.Type),
		"user-id": h.written(message.UserId), "app-id": h.written(message.AppId),
	}
	maps.DeleteFunc(cells, func(_, value string) bool { return value == `""` }) // absent
	cells["exchange"], cells["routing key"] = h.written(message.Exchange), h.written(message.RoutingKey)
	cells["redelivered"] = h.written(message.Redelivered)
	for name, value := range message.Headers {
		cells["header "+name] = h.written(value)
	}
	return cells
}

func (h *headerTable) written(value any) string {
	switch value := value.(type) {
	case string:
		if _, err := time.Parse(time.RFC3339, value); err == nil {
			return "TIME"
		}
		value = strings.ReplaceAll(value, h.world.Namespace, "NAMESPACE")
		if value == h.world.VHost.Broker.Username {
			return "USER"
		}
		if len(value) == 36 && strings.Count(value, "-") == 4 {
			return "UID"
		}
		return fmt.Sprintf("%q", value)
	case time.Time:
		return "TIME"
	case []any:
		items := make([]string, len(value))
		for i, item := range value {
			items[i] = h.written(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case amqp.Table:
		var fields []string
		for _, name := range slices.Sorted(maps.Keys(value)) {
			fields = append(fields, name+": "+h.written(value[name]))
		}
		return "{" + strings.Join(fields, ", ") + "}"
	}
	return fmt.Sprintf("%T(%v)", value, value)
}

// String formats the table. A cell shows how a property differs from that of the dead letter. The last row has the properties that every copy keeps.
func (h *headerTable) String() string {
	rows := map[string]bool{}
	for _, cells := range h.cells {
		for row := range cells {
			rows[row] = true
		}
	}
	text := &strings.Builder{}
	fmt.Fprintf(text, "| | %s |\n|%s\n", strings.Join(h.columns, " | "), strings.Repeat(" --- |", len(h.columns)+1))
	var unchanged []string
	for _, row := range slices.Sorted(maps.Keys(rows)) {
		before, had := h.cells["dead letter"][row]
		if had && !slices.ContainsFunc(h.columns, func(column string) bool { return h.cells[column][row] != before }) {
			unchanged = append(unchanged, row+" "+before)
			continue
		}
		fmt.Fprintf(text, "| %s |", row)
		for _, column := range h.columns {
			value, has := h.cells[column][row]
			switch {
			case !has && !had:
				value = "–"
			case !has:
				value = "gone"
			case had && value == before && column != "dead letter":
				value = "kept"
			}
			if column == "dead letter" && !had {
				value = "–"
			}
			fmt.Fprintf(text, " %s |", value)
		}
		text.WriteByte('\n')
	}
	fmt.Fprintf(text, "| without change | %s |\n", strings.Join(unchanged, ", "))
	return text.String()
}

// expectGolden compares a table with testdata/headers/NAME.golden. A row that only some versions of RabbitMQ have begins with these
// versions.
func expectGolden(name string, broker brokers.Broker, got string) {
	GinkgoHelper()
	path := filepath.Join("testdata", "headers", name+".golden")
	text, err := os.ReadFile(path)
	if *update {
		var versions []string
		for _, one := range matrix {
			versions = append(versions, series(one))
		}
		text = []byte(withTable(string(text), got, series(broker), versions))
		err = os.WriteFile(path, text, 0o644)
	}
	Expect(err).NotTo(HaveOccurred(), "go test ./test/e2e -ginkgo.focus 'golden table' -update writes the file")
	Expect(got).To(Equal(tableOf(string(text), series(broker))))
}

// tableOf returns the table for one version.
func tableOf(golden, version string) string {
	table := &strings.Builder{}
	for line := range strings.Lines(golden) {
		versions, row, _ := strings.Cut(line, "|")
		if versions == "" || slices.Contains(strings.Fields(versions), version) {
			table.WriteString("|" + row)
		}
	}
	return table.String()
}

// withTable returns a golden file with a new table for one version.
func withTable(golden, table, version string, versions []string) string {
	having := map[string][]string{} // versions by row
	for _, one := range versions {
		rows := table
		if one != version {
			rows = tableOf(golden, one)
		}
		for row := range strings.Lines(rows) {
			having[row] = append(having[row], one)
		}
	}
	name := func(row string) string { return strings.Split(row, "|")[1] }
	text := &strings.Builder{}
	for _, row := range slices.SortedFunc(maps.Keys(having), func(a, b string) int {
		return cmp.Or(strings.Compare(name(a), name(b)), slices.Compare(having[a], having[b]))
	}) {
		if len(having[row]) < len(versions) {
			text.WriteString(strings.Join(having[row], " ") + " ")
		}
		text.WriteString(row)
	}
	return text.String()
}
