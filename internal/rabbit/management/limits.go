package management

import (
	"strings"
	"sync"
)

const (
	// Mebibyte is a mebibyte in bytes.
	Mebibyte = 1 << 20

	// smallAnswer is the limit of an answer about one thing, in bytes after decompression.
	smallAnswer = 1 * Mebibyte
	// nodesAnswer is the limit of an answer that grows with the cluster.
	nodesAnswer = 4 * Mebibyte
	// largestItem is the limit of one queue, exchange, binding or policy of an answer: the decoder holds it as a whole.
	largestItem = 1 * Mebibyte
	// largestHeader is the limit of the headers of an answer.
	largestHeader = 64 << 10
	// LongestVersion is the longest version that a status has place for.
	LongestVersion = 64
	// LongestClusterName is the longest name of a cluster that a status has place for.
	LongestClusterName = 1024

	// DefaultResponseLimit is the limit of answers that grow with the vhost. A vhost of 60,000 queues takes 16 MB.
	DefaultResponseLimit = 64 * Mebibyte
	// MemoryFactor is how much memory all snapshots may take together, in response limits.
	MemoryFactor = 6
	// freeRoom is how much memory each connection may take, whatever the others take.
	freeRoom = 2 * Mebibyte
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
	{"/queues/{vhost}/{queue}/bindings", smallAnswer},
	{"/exchanges/{vhost}", 0},
	{"/exchanges/{vhost}/{exchange}", smallAnswer},
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
	Memory   int64 // of all snapshots together, those included that are being read

	mu   sync.Mutex
	Used int64
}

// NewLimits takes the limit of an answer that grows with the vhost; DefaultResponseLimit if zero.
func NewLimits(response int64) *Limits {
	if response == 0 {
		response = DefaultResponseLimit
	}
	return &Limits{response: response, Memory: MemoryFactor * response}
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

// endpointOf is the endpoint that a request is made to, without names; "other" if it is none of those listed.
func endpointOf(path string) string {
	path, _, _ = strings.Cut(path, "?")
	for _, known := range answerLimits {
		if matches(known.endpoint, path) {
			return known.endpoint
		}
	}
	return "other"
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

// Usage is how much memory all snapshots take together, and how much they may.
func (l *Limits) Usage() (used, limit int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Used, l.Memory
}

// Room is the memory that one snapshot, or one answer, takes of what all may take. It belongs to one goroutine at a time.
type Room struct {
	Limits *Limits
	Taken  int64
}

// need makes the room at least as large as this; false if that is too much. Nobody may take more than is then left for the
// others: however many take all they can get, there is some left for the next.
func (r *Room) need(bytes int64) bool {
	if bytes <= r.Taken {
		return true
	}
	r.Limits.mu.Lock()
	defer r.Limits.mu.Unlock()
	more := bytes - r.Taken
	if left := r.Limits.Memory - r.Limits.Used - more; bytes > freeRoom && bytes > left {
		return false
	}
	r.Limits.Used += more
	r.Taken = bytes
	return true
}

// Size is how large the room is. Unlike the other methods it may be called by any goroutine.
func (r *Room) Size() int64 {
	r.Limits.mu.Lock()
	defer r.Limits.mu.Unlock()
	return r.Taken
}

// Shrink gives back what is more than this.
func (r *Room) Shrink(bytes int64) {
	if r == nil || bytes >= r.Taken {
		return
	}
	r.Limits.mu.Lock()
	defer r.Limits.mu.Unlock()
	r.Limits.Used -= r.Taken - bytes
	r.Taken = bytes
}

// Free gives everything back.
func (r *Room) Free() { r.Shrink(0) }
