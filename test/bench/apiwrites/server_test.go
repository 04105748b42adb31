package apiwrites

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/go-logr/logr"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// crds is the folder with the CRDs.
var crds = filepath.Join("..", "..", "..", "config", "crd", "bases")

// server is an API server with Warren's CRDs, and its etcd.
type server struct {
	api             client.Client
	apiServer, etcd process
}

func startServer(b *testing.B) *server {
	b.Helper()
	log.SetLogger(logr.Discard())
	environment := &envtest.Environment{
		CRDDirectoryPaths: []string{crds}, ErrorIfCRDPathMissing: true,
	}
	config, err := environment.Start()
	if err != nil {
		b.Fatalf("start the API server: set KUBEBUILDER_ASSETS as hack/kubernetes.sh prints it: %v", err)
	}
	b.Cleanup(func() { _ = environment.Stop() }) // nobody needs the server any more, however it ends
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			b.Fatal(err)
		}
	}
	config.QPS = -1
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		b.Fatal(err)
	}
	return &server{api: api, apiServer: childNamed(b, "kube-apiserver"), etcd: childNamed(b, "etcd")}
}

// clear deletes what was made.
func (s *server) clear(b *testing.B) {
	b.Helper()
	list := &v1alpha1.ConsumerQueueList{}
	if err := s.api.List(b.Context(), list); err != nil {
		b.Fatal(err)
	}
	for i := range list.Items {
		cq := &list.Items[i]
		before := cq.DeepCopy()
		cq.Finalizers = nil
		if err := s.api.Patch(b.Context(), cq, client.MergeFrom(before)); err != nil {
			b.Fatal(err)
		}
	}
	for _, object := range []client.Object{&v1alpha1.ConsumerQueue{}, &eventsv1.Event{}} {
		if err := s.api.DeleteAllOf(b.Context(), object, client.InNamespace(namespace)); err != nil {
			b.Fatal(err)
		}
	}
}

// process is the number of a process.
type process int

// childNamed finds the process that this one has started with a name.
func childNamed(b *testing.B, name string) process {
	b.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		b.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		number, rest, _ := strings.Cut(string(text), " (")
		command, rest, _ := strings.Cut(rest, ") ")
		if fields := strings.Fields(rest); command == name && fields[1] == strconv.Itoa(os.Getpid()) {
			pid, err := strconv.Atoi(number)
			if err != nil {
				b.Fatal(err)
			}
			return process(pid)
		}
	}
	b.Fatalf("this process has not started %s", name)
	return 0
}

// cpu is what a process has used so far, in user and system mode.
func (p process) cpu(b *testing.B) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p))
	if err != nil {
		b.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), ") ")
	ticks := 0
	for _, field := range strings.Fields(after)[11:13] { // utime and stime; see proc_pid_stat(5)
		number, err := strconv.Atoi(field)
		if err != nil {
			b.Fatal(err)
		}
		ticks += number
	}
	const perSecond = 100 // USER_HZ on every architecture that Go knows
	return time.Duration(ticks) * time.Second / perSecond
}

// cost is what requests took, in milliseconds.
type cost struct{ server, etcd, wall float64 }

func (c cost) plus(other cost) cost {
	return cost{c.server + other.server, c.etcd + other.etcd, c.wall + other.wall}
}

func (c cost) per(count float64) cost { return cost{c.server / count, c.etcd / count, c.wall / count} }

func (c cost) String() string {
	return fmt.Sprintf("API server %5.2f ms, etcd %5.2f ms, wall %5.2f ms", c.server, c.etcd, c.wall)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
