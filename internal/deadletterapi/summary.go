package deadletterapi

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	messaging "github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/deadletter"
)

const (
	// maxGroups is the number of groups in a summary.
	maxGroups = 100
	// maxCountedGroups is the number of groups that are counted separately. Each message may have a different value.
	maxCountedGroups = 10_000
	// maxValueBytes is how many bytes of a header's value a group keeps. A value may have 128 KiB.
	maxValueBytes = 1024
)

type groupKey struct {
	reason messaging.DeadLetterReason
	queue  string
	value  [sha256.Size]byte // the hash of the header's value
	has    bool              // the message has the header
	isText bool              // the header's value has a text form
}

type counter struct {
	header string // whose values form groups; empty for none
	groups map[groupKey]*v1alpha1.Group
	order  []groupKey // of the first messages
	others int64
}

func newCounter(header string) *counter {
	return &counter{header: header, groups: map[groupKey]*v1alpha1.Group{}}
}

func (c *counter) add(deadLetter deadletter.Message) {
	key, value := groupKey{reason: deadLetter.Reason, queue: deadLetter.Origin.Queue}, ""
	if c.header != "" {
		var given any
		given, key.has = deadLetter.Headers[c.header]
		value, key.isText = deadletter.HeaderText(given)
		key.value = sha256.Sum256([]byte(value))
	}
	group := c.groups[key]
	if group == nil {
		if len(c.groups) == maxCountedGroups {
			c.others++
			return
		}
		group = &v1alpha1.Group{Reason: string(key.reason), Queue: text(key.queue), SampleID: deadletter.Fingerprint(deadLetter.Delivery)}
		if key.has {
			shown, encoding, truncated := beginningOf([]byte(value), maxValueBytes)
			group.Value, group.ValueInexact = &shown, truncated || encoding == v1alpha1.Base64 || !key.isText
		}
		c.groups[key] = group
		c.order = append(c.order, key)
	}
	group.Count++
	if deadLetter.Redrives > 0 {
		group.Redriven++
	}
	group.Oldest = extreme(group.Oldest, deadLetter.Origin.DiedAt, time.Time.Before)
	group.Newest = extreme(group.Newest, deadLetter.Origin.DiedAt, time.Time.After)
}

// extreme returns the earlier or later of two times.
func extreme(known *metav1.Time, at time.Time, further func(time.Time, time.Time) bool) *metav1.Time {
	if at.IsZero() || known != nil && !further(at, known.Time) {
		return known
	}
	return timeOf(at)
}

// largest returns the groups with the most messages, and the number of messages in other groups.
func (c *counter) largest() (groups []v1alpha1.Group, others int64) {
	keys := slices.Clone(c.order)
	slices.SortStableFunc(keys, func(a, b groupKey) int { return cmp.Compare(c.groups[b].Count, c.groups[a].Count) })
	groups, others = []v1alpha1.Group{}, c.others
	for i, key := range keys {
		if i < maxGroups {
			groups = append(groups, *c.groups[key])
		} else {
			others += c.groups[key].Count
		}
	}
	return groups, others
}
