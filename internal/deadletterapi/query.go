package deadletterapi

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/warren-mq/warren/internal/deadletter"
	"github.com/warren-mq/warren/internal/deadletterapi/parameters"
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

// The parameters of messages, of an export and of a summary. A summary has no selector: the right to counts is enough for it, and an
// expression could disclose the content of messages. The API server may add anyParameters to every request.
var (
	messageParameters = append([]string{"position", "limit", "bodyLimit", "distinct"}, parameters.Names...)
	summaryParameters = []string{"depth", "groupBy"}
	anyParameters     = []string{"timeout", "pretty"}
)

// parse parses the parameters of a request. Its errors begin with the name of the parameter.
func parse(values url.Values, allowed []string) (query, error) {
	q := query{}
	for name := range values {
		if !slices.Contains(allowed, name) && !slices.Contains(anyParameters, name) {
			return q, fmt.Errorf("%s: unknown parameter. The parameters are %s", name, strings.Join(allowed, ", "))
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
	if q.groupBy = values.Get("groupBy"); !parameters.IsHeaderName(q.groupBy) {
		return q, fmt.Errorf("groupBy: header %q contains =, or begins or ends with !, so no selector can name it. Use another header",
			q.groupBy)
	}
	distinct, err := parameters.Bool(values, "distinct")
	if err != nil {
		return q, err
	}
	q.distinct = distinct
	return q, q.selects(values)
}

func (q *query) selects(values url.Values) error {
	selector, err := parameters.Selector(values)
	if err != nil {
		return err
	}
	q.selector, err = deadletter.Compile(selector)
	return err
}
