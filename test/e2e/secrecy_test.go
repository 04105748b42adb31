package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// A password appears in no log, Event, status, metric or error. witness hears all that is said during the suite: what the controllers log, and each version of each Event,
// BrokerConnection and ConsumerQueue. It learns the passwords from the Secrets.
type witness struct {
	mu       sync.Mutex
	log      bytes.Buffer
	said     []statement
	accounts []account
}

// statement is where something was said, and what.
type statement struct{ where, text string }

// account is a user name and a password that a Secret has held.
type account struct{ username, password string }

// Write takes the log.
func (w *witness) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(text)
}

// listen watches until the context ends. A watch that the API server ends, as it does when it is busy, goes on where it was.
func (w *witness) listen(ctx context.Context, kube client.WithWatch) {
	GinkgoHelper()
	for _, list := range []client.ObjectList{
		&corev1.SecretList{}, &eventsv1.EventList{}, &v1alpha1.BrokerConnectionList{}, &v1alpha1.ConsumerQueueList{},
	} {
		Expect(kube.List(ctx, list)).To(Succeed())
		watching, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), lister{kube, list})
		Expect(err).NotTo(HaveOccurred())
		go func() {
			for event := range watching.ResultChan() {
				w.hear(event)
			}
			if ctx.Err() == nil {
				w.add(statement{where: deaf, text: fmt.Sprintf("%T", list)})
			}
		}()
	}
}

// lister watches one kind.
type lister struct {
	kube client.WithWatch
	list client.ObjectList
}

func (l lister) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return l.kube.Watch(ctx, l.list, &client.ListOptions{Raw: &options})
}

// deaf is said by the witness itself when a watch has ended too early.
const deaf = "witness"

func (w *witness) hear(event watch.Event) {
	if secret, ok := event.Object.(*corev1.Secret); ok {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.accounts = append(w.accounts, account{string(secret.Data["username"]), string(secret.Data["password"])})
		return
	}
	object, ok := event.Object.(client.Object)
	if !ok {
		w.add(statement{where: deaf, text: fmt.Sprintf("%+v", event.Object)})
		return
	}
	object.SetManagedFields(nil)
	text, err := json.Marshal(object)
	if err != nil {
		text = []byte(err.Error())
	}
	w.add(statement{where: fmt.Sprintf("%T %s", object, client.ObjectKeyFromObject(object)), text: string(text)})
}

func (w *witness) add(said statement) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, said)
}

// leaks lists where passwords were said, each place once.
func (w *witness) leaks() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	said := append(slices.Clone(w.said), statement{"the log", w.log.String()})
	families, err := metrics.Registry.Gather()
	said = append(said, statement{"the metrics", fmt.Sprint(families, err)})
	return leaks(said, w.accounts)
}

func leaks(said []statement, accounts []account) []string {
	var spellings []string
	for _, a := range accounts {
		spellings = append(spellings, a.spellings()...)
	}
	slices.Sort(spellings)
	spellings = slices.Compact(spellings)
	var places []string
	for _, s := range said {
		if slices.ContainsFunc(spellings, func(spelling string) bool { return strings.Contains(s.text, spelling) }) {
			places = append(places, s.where)
		}
	}
	slices.Sort(places)
	return slices.Compact(places)
}

// spellings are the ways in which a password may be written. One of a few letters is in other words by chance.
func (a account) spellings() []string {
	if len(a.password) < 8 {
		return nil
	}
	quoted, _ := json.Marshal(a.password) // a string has JSON
	return []string{
		a.password, url.QueryEscape(a.password), url.PathEscape(a.password), strings.Trim(string(quoted), `"`),
		strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(a.password)), "="),
		strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(a.username+":"+a.password)), "="), // basic authentication
	}
}

// testify fails if a password was said anywhere. First it is made sure that the witness would have heard: a password of
// its own is put wherever it listens. The manager must have stopped, so that it does not act on that.
func (w *witness) testify() {
	background := context.Background()
	known := w.leaks()
	Expect(known).To(BeEmpty(), "a password of a broker's user was written here")

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "canary-"}}
	Expect(kube.Create(background, namespace)).To(Succeed())
	canary, named := rand.Text(), metav1.ObjectMeta{Namespace: namespace.Name, Name: "canary"}
	for _, object := range []client.Object{
		&corev1.Secret{ObjectMeta: named, StringData: map[string]string{"password": canary}},
		&v1alpha1.BrokerConnection{ObjectMeta: named, Spec: v1alpha1.BrokerConnectionSpec{
			VHost: canary, SecretRef: &v1alpha1.SecretReference{Name: "canary"},
		}},
		&v1alpha1.ConsumerQueue{ObjectMeta: named, Spec: v1alpha1.ConsumerQueueSpec{
			Queue: &v1alpha1.QueueSpec{Name: v1alpha1.QueueName(canary)},
		}},
		&eventsv1.Event{
			ObjectMeta: named, Regarding: corev1.ObjectReference{Kind: "ConsumerQueue", Namespace: namespace.Name, Name: "canary"}, EventTime: metav1.NowMicro(), Type: corev1.EventTypeNormal, Reason: "Canary", Action: "Sing",
			ReportingController: "test", ReportingInstance: "test", Note: canary,
		},
	} {
		Expect(kube.Create(background, object)).To(Succeed())
	}
	ctrl.Log.Info("The canary sings", "password", canary)
	key := namespace.Name + "/canary"
	Eventually(w.leaks).Should(Equal([]string{
		"*v1.Event " + key, "*v1alpha1.BrokerConnection " + key, "*v1alpha1.ConsumerQueue " + key, "the log",
	}), "what the witness hears")
	w.mu.Lock()
	defer w.mu.Unlock()
	Expect(slices.ContainsFunc(w.said, func(s statement) bool { return s.where == deaf })).To(BeFalse(), "a watch ended too early")
}

// A password is found in whatever way it is written, and nothing else is taken for one.
func TestLeaks(t *testing.T) {
	t.Parallel()
	accounts := []account{{"bob", `correct "horse"/2`}, {"eve", "guest"}, {"", ""}}
	for text, leaked := range map[string]bool{
		`dial amqp://bob:correct "horse"/2@mq`:              true,
		`dial amqp://bob:correct%20%22horse%22%2F2@mq`:      true,
		`dial amqp://bob:correct+%22horse%22%2F2@mq`:        true,
		`{"message":"correct \"horse\"/2"}`:                 true,
		"data: Y29ycmVjdCAiaG9yc2UiLzI=":                    true,
		"Authorization: Basic Ym9iOmNvcnJlY3QgImhvcnNlIi8y": true,
		`correct "horse"`:                                   false,
		"user \"bob\", guest":                               false,
		"":                                                  false,
	} {
		if got := len(leaks([]statement{{"here", text}}, accounts)) > 0; got != leaked {
			t.Errorf("%s: leaked is %t, want %t", text, got, leaked)
		}
	}
}
