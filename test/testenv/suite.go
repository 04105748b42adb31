package testenv

import (
	"context"
	"io"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/warren-mq/warren/test/deadline"
)

// SetUpGomega has Gomega fail specs. Unless a spec says otherwise, Eventually waits for the given time on an idle machine, and Consistently
// watches for some seconds.
func SetUpGomega(within time.Duration) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(deadline.For(within))
	SetDefaultEventuallyPollingInterval(deadline.Polling)
	SetDefaultConsistentlyDuration(4 * time.Second)
	SetDefaultConsistentlyPollingInterval(deadline.Polling)
}

// Long has a container or a spec begin before others, so that no process of a suite is left with it in the end. It is for
// what waits; what keeps the machine busy had better not all begin at once.
const Long = SpecPriority(1)

// Extended labels a spec or a container that `make test` leaves to `make test-all`.
var Extended = Label("extended")

// LogTo has the libraries of this process log there.
func LogTo(writer io.Writer) {
	ctrl.SetLogger(zap.New(zap.WriteTo(writer), zap.UseDevMode(true)))
	klog.SetLogger(ctrl.Log)
}

// ctx ends with the test.
func ctx() context.Context { return GinkgoT().Context() }
