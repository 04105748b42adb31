package testenv

import (
	"context"
	"io"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/warren-mq/warren/test/deadline"
)

// SetUpGomega makes Gomega fail specs. By default Eventually waits for the given time on an idle machine, and Consistently
// watches for some seconds.
func SetUpGomega(within time.Duration) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(deadline.For(within))
	SetDefaultEventuallyPollingInterval(deadline.Polling)
	SetDefaultConsistentlyDuration(4 * time.Second)
	SetDefaultConsistentlyPollingInterval(deadline.Polling)
}

// Long makes a container or spec start before others, so that it does not delay the end of the suite. It is for specs that mostly
// wait, not for specs that keep the machine busy.
const Long = SpecPriority(1)

// Extended labels a spec or container that only `make test-all` runs.
var Extended = Label("extended")

// ExtendedUnless returns Extended, or no label for an entry of a table that `make test` runs, too.
func ExtendedUnless(quick bool) Labels {
	if quick {
		return nil
	}
	return Extended
}

// LogTo sends the logs of this process's libraries to a writer.
func LogTo(writer io.Writer) {
	ctrl.SetLogger(zap.New(zap.WriteTo(writer), zap.UseDevMode(true)))
	klog.SetLogger(ctrl.Log)
}

// contexts has the context of each spec and of each node of the suite, by its start. Ginkgo keeps each context until the spec ends, and the
// time to end them grows with the square of their number.
var contexts sync.Map

// ContextOfSpec returns a context that ends with the spec.
func ContextOfSpec() context.Context {
	began := CurrentSpecReport().StartTime
	known, found := contexts.Load(began)
	if !found {
		known, _ = contexts.LoadOrStore(began, GinkgoT().Context())
	}
	return known.(context.Context)
}

func ctx() context.Context { return ContextOfSpec() }
