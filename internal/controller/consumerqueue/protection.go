package consumerqueue

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
)

// errUnprotected ends a look that would have declared something for the first time.
var errUnprotected = errors.New("the BrokerConnection has no finalizer yet, or is being deleted")

// checkProtected asks the API server whether the BrokerConnection of an open connection is protected and is to stay: the
// cache may not have heard yet that it is being deleted.
func (l *scope) checkProtected(ctx context.Context, owner string) error {
	bc := &v1alpha1.BrokerConnection{}
	err := l.live.Get(ctx, brokers.ConnectionKey(l.cq), bc)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get BrokerConnection %q: %w", l.cq.ConnectionName(), err)
	}
	if apierrors.IsNotFound(err) || string(bc.UID) != owner || !bc.IsProtected() || !bc.DeletionTimestamp.IsZero() {
		return errUnprotected
	}
	return nil
}
