package deadletterapi

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/warren-mq/warren/internal/deadletter"
)

// The bounds of what a request may ask for.
const (
	mostLimit    = 1000
	mostBody     = 1 << 20
	mostDepth    = 100_000
	defaultLimit = 20
	defaultBody  = 4096
	// summaryDepth is how many messages a summary is about, unless a request asks for more.
	summaryDepth = 10_000
)

// query is what a request asks for.
type query struct {
	// position is where to begin, limit how many messages to tell of at most, bodyLimit how much of each body, in bytes.
	position, limit, bodyLimit int
	// depth is how many messages are looked at, at most.
	depth int
	// paged says that no more than a page is looked at where that is all it takes.
	paged bool
	// turnTime is how long the request waits for its turn at the queue, unless it is zero.
	turnTime time.Duration
	groupBy  string
	selector *deadletter.Selector
}

// most is how many messages are looked at. Where some are left out, nobody knows how many a page takes.
func (q query) most(shared bool) int {
	if q.paged && q.selector.All() && !shared {
		return min(q.position+q.limit, q.depth)
	}
	return q.depth
}

// The parameters of a summary, of messages, and of an export. Any request may have those that the API server adds.
var (
	selectionParameters = []string{"id", "reason", "where", "unknownOrigin"}
	messageParameters   = append([]string{"position", "limit", "bodyLimit"}, selectionParameters...)
	summaryParameters   = []string{"depth", "groupBy"}
	anyParameters       = []string{"timeout", "pretty"}
)

// parse reads the parameters of a request. Its errors name the parameter.
func parse(values url.Values, allowed []string) (query, error) {
	q := query{}
	for name := range values {
		if !slices.Contains(allowed, name) && !slices.Contains(anyParameters, name) {
			return q, fmt.Errorf("%s: unknown parameter; known are %v", name, allowed)
		}
	}
	for _, number := range []struct {
		name              string
		value             *int
		smallest, largest int
		otherwise         int
	}{
		{"position", &q.position, 0, mostDepth, 0},
		{"limit", &q.limit, 1, mostLimit, defaultLimit},
		{"bodyLimit", &q.bodyLimit, 0, mostBody, defaultBody},
		{"depth", &q.depth, 1, mostDepth, summaryDepth},
	} {
		*number.value = number.otherwise
		given := values.Get(number.name)
		if given == "" {
			continue
		}
		parsed, err := strconv.Atoi(given)
		if err != nil || parsed < number.smallest || parsed > number.largest {
			return q, fmt.Errorf("%s: %q must be a number from %d to %d", number.name, given, number.smallest, number.largest)
		}
		*number.value = parsed
	}
	q.groupBy = values.Get("groupBy")
	return q, q.selects(values)
}

// reasons are the words that the parameter reason may have.
var reasons = []deadletter.Reason{
	deadletter.Rejected, deadletter.Expired, deadletter.MaxLength, deadletter.DeliveryLimit, deadletter.Parked,
}

func (q *query) selects(values url.Values) error {
	selection := deadletter.Selection{IDs: values["id"], Where: values.Get("where")}
	for _, word := range values["reason"] {
		if !slices.Contains(reasons, deadletter.Reason(word)) {
			return fmt.Errorf("reason: %q must be one of %v", word, reasons)
		}
		selection.Reasons = append(selection.Reasons, deadletter.Reason(word))
	}
	if given := values.Get("unknownOrigin"); given != "" {
		unknown, err := strconv.ParseBool(given)
		if err != nil {
			return fmt.Errorf("unknownOrigin: %q must be true or false", given)
		}
		selection.UnknownOrigin = unknown
	}
	selector, err := deadletter.Compile(selection)
	if err != nil {
		return err
	}
	q.selector = selector
	return nil
}
