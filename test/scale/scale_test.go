package scale

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
)

// The environment variables that a measurement goes by.
const (
	countVariable   = "WARREN_SCALE_COUNT"   // how many ConsumerQueues; 500 unless set
	managerVariable = "WARREN_SCALE_MANAGER" // another manager than that of this checkout, to compare
	crdsVariable    = "WARREN_SCALE_CRDS"    // the folder with that manager's CRDs
)

// specs are ConsumerQueues by what they share: each has a main queue, one delay tier and what takes their dead letters.
var specs = map[string]func(name string) v1alpha1.ConsumerQueueSpec{
	"apart": func(string) v1alpha1.ConsumerQueueSpec { return v1alpha1.ConsumerQueueSpec{Retry: oneTier()} },
	"shared": func(name string) v1alpha1.ConsumerQueueSpec {
		key := v1alpha1.RoutingKey(name)
		return v1alpha1.ConsumerQueueSpec{Retry: oneTier(), DeadLetter: &v1alpha1.DeadLetterSpec{
			Exchange:   &v1alpha1.DeadLetterExchange{Name: "dead", Type: "direct"},
			RoutingKey: &key, Queue: &v1alpha1.DeadLetterQueueSpec{Name: "graveyard"},
		}}
	},
}

func oneTier() *v1alpha1.RetrySpec {
	return &v1alpha1.RetrySpec{DelayTiers: []v1alpha1.DelayTier{{Delay: "30s"}}}
}

// BenchmarkManager creates ConsumerQueues until all are Ready, and starts the manager again until all have been reconciled:
// first such as share nothing, then such as share one dead-letter exchange and one dead-letter queue.
func BenchmarkManager(b *testing.B) {
	log.SetLogger(logr.Discard())
	count := 500
	if text := os.Getenv(countVariable); text != "" {
		parsed, err := strconv.Atoi(text)
		if err != nil {
			b.Fatalf("%s: %v", countVariable, err)
		}
		count = parsed
	}
	apart := 0.0
	for _, shape := range []string{"apart", "shared"} {
		b.Run(fmt.Sprintf("%s/%d", shape, count), func(b *testing.B) {
			for b.Loop() {
				s := newScene(b)
				created := s.create(count, specs[shape])
				restarted := s.restartOften(count)
				b.ReportMetric(created.wall.Seconds(), "create-s")
				b.ReportMetric(created.cpu.Seconds(), "create-manager-cpu-s")
				b.ReportMetric(restarted.wall.Seconds(), "restart-s")
				b.ReportMetric(restarted.cpu.Seconds(), "restart-manager-cpu-s")
				all, _ := s.reconciliations(b.Context())
				b.ReportMetric(all/float64(count), "restart-reconciliations/queue")
				if shape == "apart" {
					apart = restarted.cpu.Seconds()
				} else if apart > 0 {
					b.ReportMetric(restarted.cpu.Seconds()/apart, "restart-cpu-shared/apart")
				}
			}
		})
	}
}

// scene is an API server, a broker, a BrokerConnection and a manager. The broker is private: to delete a vhost with thousands of
// quorum queues takes minutes.
type scene struct {
	b          *testing.B
	kube       client.Client
	cache      cache.Cache // to list thousands again and again would take the API server more CPU than what is measured
	kubeConfig string
	binary     string
	manager    *exec.Cmd
	metrics    string // the address of its metrics
}

// cost is what something took.
type cost struct{ wall, cpu time.Duration }

func newScene(b *testing.B) *scene {
	b.Helper()
	crds := os.Getenv(crdsVariable)
	if crds == "" {
		crds = filepath.Join("..", "..", "config", "crd", "bases")
	}
	environment := &envtest.Environment{CRDDirectoryPaths: []string{crds}, ErrorIfCRDPathMissing: true}
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
	kube, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		b.Fatal(err)
	}
	watched, err := cache.New(config, cache.Options{Scheme: scheme})
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = watched.Start(b.Context()) }() // its only error is that of the context
	s := &scene{b: b, kube: kube, cache: watched, kubeConfig: filepath.Join(b.TempDir(), "kubeconfig"), binary: os.Getenv(managerVariable)}
	if err := os.WriteFile(s.kubeConfig, environment.KubeConfig, 0o600); err != nil {
		b.Fatal(err)
	}
	if s.binary == "" {
		s.binary = filepath.Join(b.TempDir(), "manager")
		if output, err := exec.CommandContext(b.Context(), "go", "build", "-o", s.binary, "../../cmd").CombinedOutput(); err != nil {
			b.Fatalf("build the manager: %v: %s", err, output)
		}
	}
	s.start()
	b.Cleanup(s.stop)
	s.connect(brokers.NewPrivate(b).Broker)
	return s
}

func (s *scene) connect(broker brokers.Broker) {
	s.b.Helper()
	s.apply(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "rabbitmq"},
		Data: map[string][]byte{
			"username": []byte(broker.Username), "password": []byte(broker.Password),
			"amqpURI": []byte(broker.AMQPURI), "managementURI": []byte(broker.ManagementURI),
		},
	})
	s.apply(&v1alpha1.BrokerConnection{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"},
		Spec:       v1alpha1.BrokerConnectionSpec{VHost: "/", SecretRef: &v1alpha1.SecretReference{Name: "rabbitmq"}},
	})
	s.eventually("the BrokerConnection is Ready", func(ctx context.Context) bool {
		bc := &v1alpha1.BrokerConnection{}
		err := s.kube.Get(ctx, client.ObjectKey{Namespace: "default", Name: "default"}, bc)
		return err == nil && isReady(bc.Status.Conditions)
	})
}

func (s *scene) apply(object client.Object) {
	s.b.Helper()
	if err := s.kube.Create(s.b.Context(), object); err != nil {
		s.b.Fatal(err)
	}
}

// create makes ConsumerQueues, eight at a time, and waits until all are Ready.
func (s *scene) create(count int, spec func(name string) v1alpha1.ConsumerQueueSpec) cost {
	s.b.Helper()
	began, used := time.Now(), s.cpu()
	numbers := make(chan int)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for number := range numbers {
				name := fmt.Sprintf("orders-%05d", number)
				cq := &v1alpha1.ConsumerQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: spec(name)}
				if err := s.kube.Create(s.b.Context(), cq); err != nil {
					s.b.Error(err)
				}
			}
		})
	}
	for number := range count {
		numbers <- number
	}
	close(numbers)
	all.Wait()
	s.eventually("all ConsumerQueues are Ready", func(ctx context.Context) bool {
		list := &v1alpha1.ConsumerQueueList{}
		if err := s.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return false
		}
		for i := range list.Items {
			if !isReady(list.Items[i].Status.Conditions) {
				return false
			}
		}
		return len(list.Items) == count
	})
	return cost{time.Since(began), s.cpu() - used}
}

// restarts is how often the manager is started again: what one start takes varies by a third.
const restarts = 5

// restartOften returns the medians of several starts.
func (s *scene) restartOften(count int) cost {
	s.b.Helper()
	var walls, cpus []time.Duration
	for range restarts {
		took := s.restart(count)
		walls, cpus = append(walls, took.wall), append(cpus, took.cpu)
	}
	slices.Sort(walls)
	slices.Sort(cpus)
	return cost{walls[restarts/2], cpus[restarts/2]}
}

// restart starts the manager again and waits until each ConsumerQueue has been compared with the broker, and nothing has been
// reconciled for a while. It returns what it took until the last reconciliation.
func (s *scene) restart(count int) (last cost) {
	s.b.Helper()
	const quiet = 2 * time.Second
	s.stop()
	began, seen := time.Now(), 0.0
	s.start()
	s.eventually("all ConsumerQueues have been reconciled", func(ctx context.Context) bool {
		all, compared := s.reconciliations(ctx)
		if all != seen {
			seen, last = all, cost{time.Since(began), s.cpu()}
		}
		return int(compared) >= count && time.Since(began)-last.wall > quiet
	})
	return last
}

// reconciliations is how often the manager has reconciled ConsumerQueues since its start, whatever came of that, and how many of
// these have compared one with the broker: only they are to be done again after a time.
func (s *scene) reconciliations(ctx context.Context) (all, compared float64) {
	for name, value := range s.scrape(ctx) {
		if !strings.HasPrefix(name, `controller_runtime_reconcile_total{controller="consumerqueue"`) {
			continue
		}
		all += value
		if strings.Contains(name, `result="requeue_after"`) {
			compared += value
		}
	}
	return all, compared
}

func isReady(conditions []metav1.Condition) bool {
	for _, condition := range conditions {
		if condition.Type == v1alpha1.ConditionReady {
			return condition.Status == metav1.ConditionTrue
		}
	}
	return false
}

// timeLimit is more than anything here takes.
const timeLimit = 20 * time.Minute

// eventually waits for something that takes minutes at most.
func (s *scene) eventually(what string, is func(context.Context) bool) {
	s.b.Helper()
	err := wait.PollUntilContextTimeout(s.b.Context(), 200*time.Millisecond, timeLimit, true,
		func(ctx context.Context) (bool, error) { return is(ctx), nil })
	if err != nil {
		s.b.Fatalf("waiting until %s: %v", what, err)
	}
}

func (s *scene) start() {
	s.b.Helper()
	s.metrics = freeAddress(s.b)
	s.manager = exec.Command(s.binary, "--health-probe-bind-address", "0", "--metrics-secure=false", "--metrics-bind-address", s.metrics)
	s.manager.Env = append(os.Environ(), "KUBECONFIG="+s.kubeConfig, "GOGC=")
	output, err := os.Create(filepath.Join(s.b.TempDir(), "manager.log"))
	if err != nil {
		s.b.Fatal(err)
	}
	s.manager.Stdout, s.manager.Stderr = output, output
	if err := s.manager.Start(); err != nil {
		s.b.Fatal(err)
	}
}

func (s *scene) stop() {
	s.b.Helper()
	if err := s.manager.Process.Signal(syscall.SIGTERM); err != nil {
		s.b.Fatal(err)
	}
	if err := s.manager.Wait(); err != nil {
		s.b.Errorf("the manager: %v", err)
	}
}

// cpu is what the manager has used so far, in user and system mode.
func (s *scene) cpu() time.Duration {
	s.b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.manager.Process.Pid))
	if err != nil {
		s.b.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), ") ") // the name of the program may hold spaces
	fields := strings.Fields(after)
	ticks := 0
	for _, field := range fields[11:13] { // utime and stime; see proc_pid_stat(5)
		number, err := strconv.Atoi(field)
		if err != nil {
			s.b.Fatal(err)
		}
		ticks += number
	}
	const perSecond = 100 // USER_HZ on every architecture that Go knows
	return time.Duration(ticks) * time.Second / perSecond
}

// scrape reads the manager's metrics; none while it is starting.
func (s *scene) scrape(ctx context.Context) map[string]float64 {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.metrics+"/metrics", nil)
	if err != nil {
		s.b.Fatal(err)
	}
	request.Header.Set("Accept-Encoding", "identity") // the manager is not to spend time on compression
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil
	}
	defer func() { _ = response.Body.Close() }()
	metrics := map[string]float64{}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		name, text, _ := strings.Cut(lines.Text(), "} ")
		if value, err := strconv.ParseFloat(text, 64); err == nil {
			metrics[name+"}"] = value
		}
	}
	return metrics
}

func freeAddress(b *testing.B) string {
	b.Helper()
	listener, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}
