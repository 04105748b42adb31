// Package fence names the policies that stop a queue from accepting messages while safedelete shows that the queue is empty.
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

// Name is what the name of a fence tells: a policy that Warren sets for some seconds while it deletes queues. A
// crash leaves it behind, and then the name is all there is to say whose it was and since when.
type Name struct {
	Owner string // Config.Owner
	Begun time.Time
	// Recreation: the queue behind the fence is declared again. Only the recreation knows when the fence may be opened.
	Recreation bool
}

// The first words of the names of fences.
const (
	ofDeletion   = "fence"
	ofRecreation = "recreate"
)

// fenceNames reads warren-fence-<unix seconds>-<at random>:<owner>:<first queue>, and warren-recreate-… of a recreation.
var fenceNames = regexp.MustCompile(`^warren-(` + ofDeletion + `|` + ofRecreation + `)-(\d{1,12})-[A-Z0-9]{6}:([^:]*):`)

// String makes a new name. queue is for people, who may meet it in the management UI.
func (f Name) String(queue string) string {
	const readable = 64
	for len(queue) > readable {
		_, size := utf8.DecodeLastRuneInString(queue)
		queue = queue[:len(queue)-size]
	}
	purpose := ofDeletion
	if f.Recreation {
		purpose = ofRecreation
	}
	return fmt.Sprintf("warren-%s-%d-%s:%s:%s", purpose, f.Begun.Unix(), rand.Text()[:6], url.QueryEscape(f.Owner), queue)
}

// ParseName returns false for policies that are none of Warren's.
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
	return Name{Owner: owner, Begun: time.Unix(seconds, 0), Recreation: parts[1] == ofRecreation}, true
}

// Fence is a policy that keeps some queues, all under the same policy so far, from taking anything more.
type Fence struct {
	Name     string
	Pattern  string
	Queues   []string
	Priority int
	// Effective is the policy that holds for the queues without the fence.
	Effective vhost.Arguments
	// Drops: some of the queues have a maximum length and drop messages when it is reached.
	Drops bool
}

// Boundless is a length that no queue reaches. Lifting a fence goes by it: only a queue that has a maximum length, and
// refuses what is beyond, tells publishers that it takes messages again.
const Boundless = int64(1000000000)

// Closed is the form that lets nothing in once something is ready or waits to be dead-lettered.
func (f Fence) Closed() vhost.Arguments { return f.refusingAbove(0) }

// Open is the form that makes the queue tell publishers that it takes messages again.
func (f Fence) Open() vhost.Arguments { return f.refusingAbove(Boundless) }

// IsClosed reports whether a fence with this definition refuses messages.
func IsClosed(definition vhost.Arguments) bool {
	return definition[vhost.KeyMaxLength] == int64(0) && definition[vhost.KeyOverflow] == vhost.OverflowRejectPublish
}

// Harmless is the form that changes nothing.
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
