package rabbit

import (
	"strings"
	"sync"
)

const (
	mebibyte = 1 << 20

	// smallAnswer is the limit of an answer about one thing, in bytes after decompression.
	smallAnswer = 1 * mebibyte
	// nodesAnswer is the limit of an answer that grows with the cluster.
	nodesAnswer = 4 * mebibyte
	// largestItem is the limit of one queue, exchange, binding or policy of an answer: the decoder holds it as a whole.
	largestItem = 1 * mebibyte
	// largestHeader is the limit of the headers of an answer.
	largestHeader = 64 << 10
	// longestVersion and longestClusterName are what a status has place for.
	longestVersion, longestClusterName = 64, 1024

	// DefaultResponseLimit is the limit of answers that grow with the vhost. A vhost of 60,000 queues takes 16 MB.
	DefaultResponseLimit = 64 * mebibyte
	// memoryFactor is how much memory all snapshots may take together, in response limits.
	memoryFactor = 6
	// freeRoom is how much memory each connection may take, whatever the others take.
	freeRoom = 2 * mebibyte
)

// answerLimits are the limits of the endpoints of the management API; braces stand for any name. A limit of zero is the one
// that the manager's flag sets. What is not listed has the limit smallAnswer.
var answerLimits = []struct {
	endpoint string
	limit    int64
}{
	{"/whoami", smallAnswer},
	{"/overview", smallAnswer},
	{"/nodes", nodesAnswer},
	{"/global-parameters", nodesAnswer},
	{"/definitions/{vhost}", 0},
	{"/queues/{vhost}", 0},
	{"/queues/{vhost}/{queue}", smallAnswer},
	{"/exchanges/{vhost}", 0},
	{"/bindings/{vhost}", 0},
	{"/policies/{vhost}", 0},
	{"/policies/{vhost}/{policy}", smallAnswer},
	{"/operator-policies/{vhost}", 0},
	{"/vhosts/{vhost}/connections", 0},
}

// Limits bound what brokers may cost this process. All connections share one, for brokers are not trusted: a hostile one
// must not take the memory that the others need.
type Limits struct {
	response int64 // of an answer that grows with the vhost, in bytes after decompression
	memory   int64 // of all snapshots together, those included that are being read

	mu   sync.Mutex
	used int64
}

// NewLimits takes the limit of an answer that grows with the vhost; DefaultResponseLimit if zero.
func NewLimits(response int64) *Limits {
	if response == 0 {
		response = DefaultResponseLimit
	}
	return &Limits{response: response, memory: memoryFactor * response}
}

// answer is the limit of the answer to a request, in bytes.
func (l *Limits) answer(path string) int64 {
	path, _, _ = strings.Cut(path, "?")
	for _, known := range answerLimits {
		if !matches(known.endpoint, path) {
			continue
		}
		if known.limit == 0 {
			return l.response
		}
		return known.limit
	}
	return smallAnswer
}

func matches(endpoint, path string) bool {
	parts, names := strings.Split(path, "/"), strings.Split(endpoint, "/")
	if len(parts) != len(names) {
		return false
	}
	for i, name := range names {
		if name != parts[i] && !strings.HasPrefix(name, "{") {
			return false
		}
	}
	return true
}

// room is the memory that one snapshot, or one answer, takes of what all may take. It belongs to one goroutine at a time.
type room struct {
	limits *Limits
	taken  int64
}

// need makes the room at least as large as this; false if that is too much. Nobody may take more than is then left for the
// others: however many take all they can get, there is some left for the next.
func (r *room) need(bytes int64) bool {
	if bytes <= r.taken {
		return true
	}
	r.limits.mu.Lock()
	defer r.limits.mu.Unlock()
	more := bytes - r.taken
	if left := r.limits.memory - r.limits.used - more; bytes > freeRoom && bytes > left {
		return false
	}
	r.limits.used += more
	r.taken = bytes
	return true
}

// shrink gives back what is more than this.
func (r *room) shrink(bytes int64) {
	if r == nil || bytes >= r.taken {
		return
	}
	r.limits.mu.Lock()
	defer r.limits.mu.Unlock()
	r.limits.used -= r.taken - bytes
	r.taken = bytes
}

// free gives everything back.
func (r *room) free() { r.shrink(0) }
