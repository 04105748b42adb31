package statuswriter

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/controller/byresource"
)

// FieldOwner is the field manager of the fields that Warren writes, except in Events and in its Lease.
const FieldOwner = client.FieldOwner("warren")

// ErrStaleCache means that a reconciliation began with an older resource than the API server has.
var ErrStaleCache = errors.New("the cache does not have the newest status yet")

// IsStale reports whether err is ErrStaleCache or a conflict, so that the reconciliation must run again with a newer version of the
// resource.
func IsStale(err error) bool { return errors.Is(err, ErrStaleCache) || apierrors.IsConflict(err) }

// Writer writes the statuses of one kind. The zero value is ready to use.
//
// It records the resource version of each write, because the cache receives a write later than the API server answers it. Until then,
// a reconciliation reads the old status. If it computes that old status again, it must not conclude that there is nothing to write.
//
// A restart of the manager loses the versions, but the cache of a new process begins with the newest ones. Forget removes a version.
type Writer struct{ byresource.Map[write] }

// write is the last write of a resource.
type write struct {
	version string
	at      time.Time
}

// maxCacheLag is how long after a write the cache may still lack it. Without this limit, a resource would wait forever after a restore of
// the API server from a backup, which brings older versions back.
const maxCacheLag = time.Minute

// Update writes the status of an object, and replaces the object by the answer of the API server. It returns a conflict if the object
// is not the newest version.
func (w *Writer) Update(ctx context.Context, c client.Client, object client.Object) error {
	object.SetManagedFields(nil) // the API server keeps them
	if err := c.Status().Update(ctx, object, FieldOwner); err != nil {
		return err
	}
	w.Record(object)
	return nil
}

// Record records the resource version of an object that the API server has returned for a write.
func (w *Writer) Record(object client.Object) {
	w.Change(client.ObjectKeyFromObject(object), func(write) write { return write{object.GetResourceVersion(), time.Now()} })
}

// IsOlder reports whether an object from the cache is older than the last write of that object.
func (w *Writer) IsOlder(object client.Object) bool {
	last := w.Get(client.ObjectKeyFromObject(object))
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), last.version)
	return err == nil && order < 0 && time.Since(last.at) <= maxCacheLag
}
