package deadletterapi

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/warren-mq/warren/internal/deadletter"
)

// Limits and defaults of parameters.
const (
	maxLimit     = 1000
	maxBody      = 1 << 20
	maxDepth     = 100_000
	defaultLimit = 20
	defaultBody  = 4096
	// summaryDepth is the default number of messages in a summary.
	summaryDepth = 10_000
)

// query has the parameters of a request.
type query struct {
	// position is the first message, limit the maximum number of messages, bodyLimit the maximum bytes of each body.
	position, limit, bodyLimit int
	// depth is the maximum number of messages to read.
	depth int
	// paged stops reading after one page, if nothing filters the messages.
	paged bool
	// distinct requests one message of each ID, and ends the browse when all IDs are found.
	distinct bool
	// complete requests all messages, so the request waits until no job holds any.
	complete bool
	groupBy  string
	selector *deadletter.Selector
}

// maxMessages returns the maximum number of messages to read. If messages are filtered, a page may need any number of them.
func (q query) maxMessages(shared bool) int {
	if q.paged && q.selector.All() && !shared {
		return min(q.position+q.limit, q.depth)
	}
	return q.depth
}

// The parameters of messages, of an export and of a summary. The API server may add anyParameters to every request.
var (
	selectionParameters = []string{"id", "reason", "header", "diedAfter", "diedBefore", "expression", "unknownOrigin"}
	messageParameters   = append([]string{"position", "limit", "bodyLimit", "distinct"}, selectionParameters...)
	summaryParameters   = []string{"depth", "groupBy"}
	anyParameters       = []string{"timeout", "pretty"}
)

// parse parses the parameters of a request. Its errors begin with the name of the parameter.
func parse(values url.Values, allowed []string) (query, error) {
	q := query{}
	for name := range values {
		if !slices.Contains(allowed, name) && !slices.Contains(anyParameters, name) {
			return q, fmt.Errorf("%s: unknown parameter, use %v", name, allowed)
		}
	}
	for _, number := range []struct {
		name              string
		value             *int
		smallest, largest int
		otherwise         int
	}{
		{"position", &q.position, 0, maxDepth, 0},
		{"limit", &q.limit, 1, maxLimit, defaultLimit},
		{"bodyLimit", &q.bodyLimit, 0, maxBody, defaultBody},
		{"depth", &q.depth, 1, maxDepth, summaryDepth},
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
	distinct, err := parseBool(values, "distinct")
	if err != nil {
		return q, err
	}
	q.distinct = distinct
	return q, q.selects(values)
}

// reasons are the values of the parameter reason.
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
	if selection.DiedAfter, err = parseTime(values, "diedAfter"); err != nil {
		return err
	}
	if selection.DiedBefore, err = parseTime(values, "diedBefore"); err != nil {
		return err
	}
	if selection.UnknownOrigin, err = parseBool(values, "unknownOrigin"); err != nil {
		return err
	}
	q.selector, err = deadletter.Compile(selection)
	return err
}

// parseBool parses a boolean parameter; false if it is not given.
func parseBool(values url.Values, name string) (bool, error) {
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

// parseTime parses a time parameter; zero if it is not given.
func parseTime(values url.Values, name string) (time.Time, error) {
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
