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
	// distinct asks for one message of each ID, and for no more messages once all IDs are found.
	distinct bool
	// complete asks for all messages, so the request waits until no job takes messages.
	complete bool
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
	selectionParameters = []string{"id", "reason", "header", "diedAfter", "diedBefore", "expression", "unknownOrigin"}
	messageParameters   = append([]string{"position", "limit", "bodyLimit", "distinct"}, selectionParameters...)
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
	distinct, err := truth(values, "distinct")
	if err != nil {
		return q, err
	}
	q.distinct = distinct
	return q, q.selects(values)
}

// reasons are the words that the parameter reason may have.
var reasons = []deadletter.Reason{
	deadletter.Rejected, deadletter.Expired, deadletter.MaxLength, deadletter.DeliveryLimit, deadletter.Parked,
}

func (q *query) selects(values url.Values) (err error) {
	selection := deadletter.Selection{IDs: values["id"], Expression: values.Get("expression")}
	for _, word := range values["reason"] {
		if !slices.Contains(reasons, deadletter.Reason(word)) {
			return fmt.Errorf("reason: %q must be one of %v", word, reasons)
		}
		selection.Reasons = append(selection.Reasons, deadletter.Reason(word))
	}
	if selection.Headers, err = deadletter.ParseHeaders(values["header"]); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	if selection.DiedAfter, err = moment(values, "diedAfter"); err != nil {
		return err
	}
	if selection.DiedBefore, err = moment(values, "diedBefore"); err != nil {
		return err
	}
	if selection.UnknownOrigin, err = truth(values, "unknownOrigin"); err != nil {
		return err
	}
	q.selector, err = deadletter.Compile(selection)
	return err
}

// truth reads a parameter that is true or false; false if it is not given.
func truth(values url.Values, name string) (bool, error) {
	given := values.Get(name)
	if given == "" {
		return false, nil
	}
	parsed, err := strconv.ParseBool(given)
	if err != nil {
		return false, fmt.Errorf("%s: %q must be true or false", name, given)
	}
	return parsed, nil
}

// moment reads a parameter that is a time; zero if it is not given.
func moment(values url.Values, name string) (time.Time, error) {
	given := values.Get(name)
	if given == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, given)
	if err != nil {
		return at, fmt.Errorf("%s: %q must be a time such as 2026-01-31T08:00:00Z", name, given)
	}
	return at, nil
}
