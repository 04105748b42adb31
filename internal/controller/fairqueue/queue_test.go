package fairqueue

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/warren-mq/warren/internal/topology/topologytest"
)

type queue struct {
	*Queue
	t *testing.T
}

// withQueue runs a test with a Queue and a fake clock.
func withQueue(t *testing.T, test func(q queue)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Minute)
		q := queue{newQueue("", limiter, Limits{Namespace: 6, Background: 2}), t}
		test(q)
		q.ShutDown()
	})
}

func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

func (q queue) addWith(priority int, after time.Duration, namespace string, names ...string) {
	for _, name := range names {
		q.AddWithOpts(priorityqueue.AddOpts{Priority: &priority, After: after}, request(namespace, name))
	}
}

// next takes the next request and ends its reconciliation immediately.
func (q queue) next() (name string, priority int) {
	got, priority, _ := q.GetWithPriority()
	q.Done(got)
	return got.String(), priority
}

// expect expects that exactly these requests are ready, in this order.
func (q queue) expect(want ...string) {
	q.t.Helper()
	synctest.Wait()
	var got []string
	for q.Len() > 0 {
		name, _ := q.next()
		got = append(got, name)
	}
	topologytest.Equal(q.t, "order", want, got)
}

func TestOrder(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		add  func(q queue)
		want []string
	}{
		"namespaces are served round-robin": {
			func(q queue) {
				q.addWith(0, 0, "shop", "a", "b", "c", "d")
				q.addWith(0, 0, "bank", "e", "f")
				q.addWith(0, 0, "farm", "g")
			},
			[]string{"shop/a", "bank/e", "farm/g", "shop/b", "bank/f", "shop/c", "shop/d"},
		},
		"a priority counts within a namespace": {
			func(q queue) {
				q.addWith(-100, 0, "bank", "a", "b")
				q.addWith(-50, 0, "shop", "c", "d")
				q.addWith(0, 0, "shop", "e")
			},
			[]string{"bank/a", "shop/e", "bank/b", "shop/c", "shop/d"},
		},
		"a higher priority moves a request behind its equals": {
			func(q queue) {
				q.addWith(-100, 0, "shop", "a", "b", "c")
				q.addWith(0, 0, "shop", "d")
				q.addWith(0, 0, "shop", "b")
				q.addWith(-50, 0, "shop", "b", "c")
			},
			[]string{"shop/d", "shop/b", "shop/c", "shop/a"},
		},
		"a request is in the queue once": {
			func(q queue) {
				q.Add(request("shop", "a"))
				q.addWith(0, 0, "shop", "a")
				q.addWith(0, time.Second, "shop", "a")
				time.Sleep(time.Minute)
			},
			[]string{"shop/a"},
		},
		"a delayed request is handed out when it is due": {
			func(q queue) {
				q.addWith(0, 2*time.Second, "shop", "a")
				q.AddAfter(request("shop", "b"), time.Second)
				time.Sleep(1500 * time.Millisecond)
			},
			[]string{"shop/b"},
		},
		"the request that is due first is handed out first": {
			func(q queue) {
				q.addWith(0, 2*time.Second, "shop", "a")
				q.addWith(0, time.Second, "shop", "b")
				time.Sleep(3 * time.Second)
			},
			[]string{"shop/b", "shop/a"},
		},
		"several additions combine the earliest time and the highest priority": {
			func(q queue) {
				q.addWith(0, time.Minute, "shop", "a")
				q.addWith(-100, time.Second, "shop", "a")
				q.addWith(-100, time.Hour, "shop", "a")
				q.addWith(-50, 0, "shop", "b")
				time.Sleep(2 * time.Second)
			},
			[]string{"shop/a", "shop/b"},
		},
		"an immediate addition cancels the delayed one": {
			func(q queue) {
				q.addWith(0, time.Second, "shop", "a")
				q.addWith(-100, 0, "shop", "a")
				q.expect("shop/a")
				time.Sleep(time.Minute)
			},
			nil,
		},
		"the delay grows with each failure": {
			func(q queue) {
				q.AddRateLimited(request("shop", "a"))
				time.Sleep(time.Second)
				q.expect("shop/a")
				q.AddRateLimited(request("shop", "a"))
				time.Sleep(time.Second)
				q.expect()
				time.Sleep(time.Second)
			},
			[]string{"shop/a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withQueue(t, func(q queue) {
				test.add(q)
				q.expect(test.want...)
			})
		})
	}
}

func TestPriorities(t *testing.T) {
	t.Parallel()
	withQueue(t, func(q queue) {
		q.addWith(-50, 0, "shop", "a")
		_, priority := q.next()
		topologytest.Equal(t, "as it was added", -50, priority)
		q.Add(request("shop", "a"))
		_, priority = q.next()
		topologytest.Equal(t, "priority of an addition without a priority", 0, priority)
	})
}

// A request that is added during its reconciliation is reconciled again, and never by two workers at a time.
func TestAdditionDuringAReconciliation(t *testing.T) {
	t.Parallel()
	withQueue(t, func(q queue) {
		q.addWith(0, 0, "shop", "a")
		got, _, _ := q.GetWithPriority()
		q.addWith(-100, 0, "shop", "a")
		q.addWith(-50, time.Second, "shop", "a") // the other addition is due earlier
		q.expect()
		q.Done(got)
		_, priority := q.next()
		topologytest.Equal(t, "priority", -50, priority)
		time.Sleep(time.Minute)
		q.expect()
	})
}

// At most two background requests of a namespace are reconciled together.
func TestBackground(t *testing.T) {
	t.Parallel()
	withQueue(t, func(q queue) {
		q.addWith(background, 0, "bank", "a", "b", "c", "d")
		q.addWith(background, 0, "shop", "e")
		take := func(want string) reconcile.Request {
			q.t.Helper()
			got, _, _ := q.GetWithPriority()
			topologytest.Equal(q.t, "request", want, got.String())
			return got
		}
		first := take("bank/a")
		take("shop/e")
		second := take("bank/b")
		topologytest.Equal(t, "ready", 0, q.Len())
		q.addWith(background+1, 0, "bank", "d", "f")
		take("bank/d")
		take("bank/f")
		topologytest.Equal(t, "ready", 0, q.Len())
		q.Done(second)
		take("bank/c")
		q.addWith(background, 0, "bank", "b")
		topologytest.Equal(t, "ready", 0, q.Len())
		q.Done(first)
		take("bank/b")
	})
}

// At most six requests of a namespace are reconciled together.
func TestANamespaceLeavesWorkersToOthers(t *testing.T) {
	t.Parallel()
	withQueue(t, func(q queue) {
		q.addWith(0, 0, "bank", "a", "b", "c", "d", "e", "f", "g")
		for range 6 {
			q.GetWithPriority()
		}
		topologytest.Equal(t, "ready", 0, q.Len())
		q.addWith(0, 0, "shop", "h")
		q.expect("shop/h")
		q.Done(request("bank", "a"))
		q.expect("bank/g")
	})
}

// While workers wait, each request is reconciled, and the limit of background requests holds.
func TestWaitingWorkersGetRequests(t *testing.T) {
	t.Parallel()
	withQueue(t, func(q queue) {
		var running, most, done atomic.Int32
		for range 8 {
			go func() {
				for {
					got, _, shutdown := q.GetWithPriority()
					if shutdown {
						return
					}
					most.Store(max(most.Load(), running.Add(1)))
					time.Sleep(time.Second)
					running.Add(-1)
					done.Add(1)
					q.Done(got)
				}
			}()
		}
		synctest.Wait()
		for i := range 20 {
			q.addWith(background, time.Duration(i%3)*time.Second/2, "bank", fmt.Sprint(i))
			q.addWith(background, time.Duration(i%2)*time.Second/2, "shop", fmt.Sprint(i))
		}
		time.Sleep(11 * time.Second) // ten rounds of two for each namespace, half a second after the first ones
		synctest.Wait()
		topologytest.Equal(t, "reconciled", 40, done.Load())
		topologytest.Equal(t, "at a time", 4, most.Load())
		topologytest.Equal(t, "namespaces", 0, len(q.order.namespaces))
	})
}

func TestFailuresAreCounted(t *testing.T) {
	t.Parallel()
	withQueue(t, func(q queue) {
		failed := request("shop", "a")
		q.AddRateLimited(failed)
		q.AddRateLimited(failed)
		topologytest.Equal(t, "failures", 2, q.NumRequeues(failed))
		q.Forget(failed)
		topologytest.Equal(t, "failures", 0, q.NumRequeues(failed))
	})
}

func TestShutDown(t *testing.T) {
	t.Parallel()
	withQueue(t, func(q queue) {
		ended := make(chan bool)
		go func() {
			_, shutdown := q.Get()
			ended <- shutdown
		}()
		synctest.Wait()
		q.ShutDown()
		topologytest.Equal(t, "shutdown", true, <-ended)
	})
}

func TestOneNamespaceCannotTakeAllWorkers(t *testing.T) {
	t.Parallel()
	const workers = 4
	queue := Options(workers).NewQueue("", nil)
	defer queue.ShutDown()
	for i := range workers {
		queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: fmt.Sprint(i)}})
	}
	taken := 0
	for ; queue.Len() > 0; taken++ {
		queue.Get()
	}
	topologytest.Equal(t, "workers of the namespace", workers/2, taken)
}

// A worker may take a request while another goroutine adds it with a delay. Afterwards the request can be delayed again.
func TestADelayedAdditionWhileARequestIsTaken(t *testing.T) {
	t.Parallel()
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Minute)
	q := newQueue("", limiter, Limits{Namespace: 6, Background: 2})
	t.Cleanup(q.ShutDown)
	added := request("shop", "orders")
	for range 20_000 {
		q.Add(added)
		var adding sync.WaitGroup
		adding.Go(func() { q.AddAfter(added, time.Hour) })
		taken, _ := q.Get()
		adding.Wait()
		q.Done(taken)
		if len(q.order.priorities) > 0 {
			t.Fatal("the request is not ready, and no delay will make it ready")
		}
		q.Add(added) // ends the delay
		taken, _ = q.Get()
		q.Done(taken)
	}
}
