package ownership

import (
	"hash/maphash"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/vhost"
)

// mark is a hash that stands for an object in the index: 8 bytes instead of 96, several times per object. Two objects may have the same
// mark. A lookup by mark therefore returns all ConsumerQueues of an object, and possibly other ConsumerQueues. Callers compare the objects
// themselves.
type mark uint64

// marksSeed differs in each process, so that users cannot choose names with colliding marks.
var marksSeed = maphash.MakeSeed()

func markOf(id vhost.ID) mark { return mark(maphash.Comparable(marksSeed, id)) }

// marksOf returns the marks of objects, sorted and without duplicates.
func marksOf(ids vhost.IDs) []mark {
	marks := make([]mark, 0, len(ids))
	for id := range ids {
		marks = append(marks, markOf(id))
	}
	slices.Sort(marks)
	return slices.Compact(marks)
}

// union merges two slices as marksOf returns them.
func union(a, b []mark) []mark {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// claimants are the ConsumerQueues that claim a subject, by form. Usually there is one form.
type claimants []sameForm

// sameForm has the ConsumerQueues that claim a subject in the same form, sorted by name.
type sameForm struct {
	form    mark
	members []client.ObjectKey
}

func (c claimants) add(form mark, member client.ObjectKey) claimants {
	at := slices.IndexFunc(c, func(same sameForm) bool { return same.form == form })
	if at < 0 {
		return append(slices.Clip(c), sameForm{form, []client.ObjectKey{member}})
	}
	if place, found := place(c[at].members, member); !found {
		c[at].members = slices.Insert(c[at].members, place, member)
	}
	return c
}

func (c claimants) remove(form mark, member client.ObjectKey) claimants {
	at := slices.IndexFunc(c, func(same sameForm) bool { return same.form == form })
	if at < 0 {
		return c
	}
	if place, found := place(c[at].members, member); found {
		c[at].members = slices.Delete(c[at].members, place, place+1)
	}
	if len(c[at].members) == 0 {
		return slices.Delete(c, at, at+1)
	}
	return c
}
