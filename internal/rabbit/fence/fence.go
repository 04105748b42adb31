// Package fence defines fences: policies that stop queues from accepting messages while they are deleted or recreated. It computes the
// names, definitions and patterns of fences. Package safedelete sets and removes the fences.
package fence

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/warren-mq/warren/internal/vhost"
)

// Name is the information in a fence's name. Warren sets a fence for some seconds while it deletes queues. If Warren crashes, the fence
// remains, and only its name shows who set it and when.
type Name struct {
	Owner string // Config.Owner
	Begun time.Time
	// Recreation: the queue behind the fence is declared again. Only the recreation knows when the fence may be opened.
	Recreation bool
	// Repeated: the queue behind the fence of a recreation already has its new arguments, so they do not show that its delete has ended.
	Repeated bool
}

// The first words of the names of fences.
const (
	ofDeletion   = "fence"
	ofRecreation = "recreate"
	ofRepetition = "recreate-again"
)

// fenceNames matches warren-fence-<unix seconds>-<random>:<owner>:<first queue>, and for recreations the same name with the prefix
// warren-recreate or warren-recreate-again.
var fenceNames = regexp.MustCompile(
	`^warren-(` + ofDeletion + `|` + ofRecreation + `|` + ofRepetition + `)-(\d{1,12})-[A-Z0-9]{6}:([^:]*):`)

// String returns a new unique name. The name ends with at most the first 64 bytes of the queue's name, for users of the management UI.
func (f Name) String(queue string) string {
	const readable = 64
	for len(queue) > readable {
		_, size := utf8.DecodeLastRuneInString(queue)
		queue = queue[:len(queue)-size]
	}
	purpose := ofDeletion
	switch {
	case f.Repeated:
		purpose = ofRepetition
	case f.Recreation:
		purpose = ofRecreation
	}
	return fmt.Sprintf("warren-%s-%d-%s:%s:%s", purpose, f.Begun.Unix(), rand.Text()[:6], url.QueryEscape(f.Owner), queue)
}

// ParseName reads the name of a fence. It returns false for the name of any other policy.
func ParseName(name string) (Name, bool) {
	parts := fenceNames.FindStringSubmatch(name)
	if parts == nil {
		return Name{}, false
	}
	seconds, err := strconv.ParseInt(parts[2], 10, 64)
	owner, err2 := url.QueryUnescape(parts[3])
	if err != nil || err2 != nil {
		return Name{}, false
	}
	return Name{Owner: owner, Begun: time.Unix(seconds, 0), Recreation: parts[1] != ofDeletion, Repeated: parts[1] == ofRepetition}, true
}

// Fence is a policy that stops some queues from accepting messages. Without the fence, the same policy applies to all of them.
type Fence struct {
	Name     string
	Pattern  string
	Queues   []string
	Priority float64
	// Effective is the definition that applies to the queues without the fence.
	Effective vhost.Arguments
	// Drops: some of the queues may have a maximum length, and drop messages when they are full.
	Drops bool
}

// Boundless is a maximum length that no queue reaches. An open fence sets it. Without a maximum length beyond which it refuses messages, a
// queue does not signal publishers that it accepts messages again.
const Boundless = int64(1000000000)

// Closed returns the definition with which a queue refuses messages while a message is ready or waits to be dead-lettered.
func (f Fence) Closed() vhost.Arguments { return f.refusingAbove(0) }

// Open returns the definition with which a queue signals publishers that it accepts messages again.
func (f Fence) Open() vhost.Arguments { return f.refusingAbove(Boundless) }

// IsClosed reports whether a fence with this definition refuses messages.
func IsClosed(definition vhost.Arguments) bool {
	return definition[vhost.KeyMaxLength] == int64(0) && definition[vhost.KeyOverflow] == vhost.OverflowRejectPublish
}

// Harmless returns the definition that does not change how the queues behave.
func (f Fence) Harmless() vhost.Arguments {
	definition := vhost.Arguments{vhost.KeyMaxLength: Boundless}
	maps.Copy(definition, f.Effective)
	return definition
}

func (f Fence) refusingAbove(length int64) vhost.Arguments {
	definition := maps.Clone(f.Effective)
	if definition == nil {
		definition = vhost.Arguments{}
	}
	delete(definition, vhost.KeyMaxLengthBytes)
	definition[vhost.KeyMaxLength], definition[vhost.KeyOverflow] = length, vhost.OverflowRejectPublish
	return definition
}
