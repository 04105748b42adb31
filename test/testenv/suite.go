package testenv

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
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

// LogTo has the libraries of this process log there.
func LogTo(writer io.Writer) {
	ctrl.SetLogger(zap.New(zap.WriteTo(writer), zap.UseDevMode(true)))
	klog.SetLogger(ctrl.Log)
}

// FreeAddress is a loopback address with a port that nobody listens at. Linux has many such addresses, and clients connect from one of
// them. So no other test and no client takes the port before the caller listens. Other systems have one loopback address.
func FreeAddress() string {
	GinkgoHelper()
	ip := net.IPv4(127, byte(1+rand.IntN(254)), byte(rand.IntN(256)), byte(1+rand.IntN(254)))
	listener, err := (&net.ListenConfig{}).Listen(ctx(), "tcp", net.JoinHostPort(ip.String(), "0"))
	if err != nil {
		listener, err = (&net.ListenConfig{}).Listen(ctx(), "tcp", "127.0.0.1:0")
	}
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// ctx ends with the test.
func ctx() context.Context { return GinkgoT().Context() }
