package management

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

const (
	// Mebibyte is a mebibyte in bytes.
	Mebibyte = 1 << 20

	// smallAnswer limits an answer about one object, in bytes after decompression.
	smallAnswer = 1 * Mebibyte
	// nodesAnswer limits an answer that grows with the cluster.
	nodesAnswer = 4 * Mebibyte
	// largestItem limits one queue, exchange, binding or policy in an answer, because the decoder buffers a whole item.
	largestItem = 1 * Mebibyte
	// largestHeader limits the headers of an answer.
	largestHeader = 64 << 10
	// LongestVersion is the longest version that fits into a status, in bytes.
	LongestVersion = 64
	// LongestClusterName is the longest name of a cluster that fits into a status, in bytes.
	LongestClusterName = 1024

	// DefaultResponseLimit is the limit of answers that grow with the vhost. A vhost of 60,000 queues takes 16 MB.
	DefaultResponseLimit = 64 * Mebibyte
	// MemoryFactor multiplied by the response limit is how much memory all snapshots may take together.
	MemoryFactor = 6
	// freeRoom is how much memory each Room may take even if the limit of all Rooms is reached.
	freeRoom = 2 * Mebibyte
)

// endpoint is an endpoint of the management API; braces in its path stand for any name. limit is the limit of answers, in bytes; zero
// stands for the limit that the manager's flag sets.
type endpoint struct {
	path  string
	limit int64
}

var endpoints = []endpoint{
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

// Limits bound the memory that the answers of brokers may take in this process. All connections share one Limits. Brokers are not trusted,
// and a hostile broker must not take the memory that the other connections need.
type Limits struct {
	response int64 // limit of an answer that grows with the vhost, in bytes after decompression
	Memory   int64 // limit of all snapshots together, including snapshots that are being read; in bytes

	mu   sync.Mutex
	Used int64
}

// NewLimits returns Limits. response limits each answer that grows with the vhost, in bytes after decompression; zero means
// DefaultResponseLimit. All snapshots together may take MemoryFactor times as much.
func NewLimits(response int64) *Limits {
	if response == 0 {
		response = DefaultResponseLimit
	}
	return &Limits{response: response, Memory: MemoryFactor * response}
}

// answer returns the limit of the answer to a request, in bytes.
func (l *Limits) answer(path string) int64 {
	return cmp.Or(endpointOf(path).limit, l.response)
}

// endpointOf returns the endpoint of a request, or the endpoint "other" for an unknown path.
func endpointOf(path string) endpoint {
	path, _, _ = strings.Cut(path, "?")
	for _, known := range endpoints {
		same := func(part, name string) bool { return part == name || strings.HasPrefix(name, "{") }
		if slices.EqualFunc(strings.Split(path, "/"), strings.Split(known.path, "/"), same) {
			return known
		}
	}
	return endpoint{"other", smallAnswer}
}

// Usage returns how much memory all snapshots take together, and how much they may take, in bytes.
func (l *Limits) Usage() (used, limit int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Used, l.Memory
}

// Room is the share of Limits that a snapshot or an answer takes. One goroutine at a time may use it.
type Room struct {
	Limits *Limits
	Taken  int64
}

// need grows the room to at least the given size, and returns false if the limit does not allow it. A room may not become larger than the
// memory that then remains, so that there is always memory for another room.
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

// Size returns the size of the room in bytes. Unlike the other methods, any goroutine may call it.
func (r *Room) Size() int64 {
	r.Limits.mu.Lock()
	defer r.Limits.mu.Unlock()
	return r.Taken
}

// Shrink reduces the room to the given size. It does nothing if the room is smaller, or nil.
func (r *Room) Shrink(bytes int64) {
	if r == nil || bytes >= r.Taken {
		return
	}
	r.Limits.mu.Lock()
	defer r.Limits.mu.Unlock()
	r.Limits.Used -= r.Taken - bytes
	r.Taken = bytes
}

// Free releases the whole room.
func (r *Room) Free() { r.Shrink(0) }
