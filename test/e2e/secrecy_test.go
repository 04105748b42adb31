package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/warren-mq/warren/api/v1alpha1"
	. "github.com/warren-mq/warren/test/testenv"
)

// witness checks that neither a password nor the content of a message appears in a log, Event, status, metric or error. During
// the suite it records the log of the controllers, and each version of each Event and of each object that the controllers write.
// Secrets contain the texts to search for: passwords, and texts that tests hide in messages.
type witness struct {
	mu       sync.Mutex
	log      bytes.Buffer
	said     []statement
	accounts []account
}

// statement is a recorded text with its source.
type statement struct{ where, text string }

// account is a user name and a password from a Secret.
type account struct{ username, password string }

// Write records the log.
func (w *witness) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(text)
}

// listen watches until the context ends. It resumes a watch that the API server ends, for example when it is busy.
func (w *witness) listen(ctx context.Context, kube client.WithWatch) {
	GinkgoHelper()
	for _, list := range []client.ObjectList{
		&corev1.SecretList{}, &eventsv1.EventList{}, &corev1.ConfigMapList{}, &v1alpha1.BrokerConnectionList{},
		&v1alpha1.ConsumerQueueList{}, &v1alpha1.RedriveList{}, &v1alpha1.PurgeList{},
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

// lister lists and watches one kind.
type lister struct {
	kube client.WithWatch
	list client.ObjectList
}

func (l lister) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return l.kube.Watch(ctx, l.list, &client.ListOptions{Raw: &options})
}

// deaf is the source that the witness records when a watch has ended too early.
const deaf = "nowhere any more: a watch ended too early"

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

// leaks lists the sources of texts with passwords, each once.
func (w *witness) leaks() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	families, err := metrics.Registry.Gather()
	said := append(slices.Clone(w.said), statement{"the log", w.log.String()}, statement{"the metrics", fmt.Sprint(families, err)})
	return leaks(said, w.accounts)
}

// leaks searches all passwords in one pass, because there are thousands of them and megabytes of text. It also lists watches that ended too early.
func leaks(said []statement, accounts []account) []string {
	var replacements []string
	for _, a := range accounts {
		for _, spelling := range Spellings(a.username, a.password) {
			replacements = append(replacements, spelling, "***")
		}
	}
	secrets := strings.NewReplacer(replacements...)
	var places []string
	for _, s := range said {
		if s.where == deaf || secrets.Replace(s.text) != s.text {
			places = append(places, s.where)
		}
	}
	slices.Sort(places)
	return slices.Compact(places)
}

// testify fails if a password was recorded anywhere. Then it writes another password to each source, and fails unless the witness
// records it. The manager must have stopped, so that it does not act on that.
func (w *witness) testify() {
	background := context.Background()
	known := w.leaks()
	Expect(known).To(BeEmpty(), "a password of a broker's user, or the content of a message, was written here")

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "canary-"}}
	Expect(kube.Create(background, namespace)).To(Succeed())
	canary, named := rand.Text(), metav1.ObjectMeta{Namespace: namespace.Name, Name: "canary"}
	for _, object := range []client.Object{
		&corev1.Secret{ObjectMeta: named, StringData: map[string]string{"password": canary}},
		&v1alpha1.BrokerConnection{ObjectMeta: named, Spec: v1alpha1.BrokerConnectionSpec{
			VHost: canary, SecretRef: &v1alpha1.LocalObjectReference{Name: "canary"},
		}},
		&v1alpha1.ConsumerQueue{ObjectMeta: named, Spec: v1alpha1.ConsumerQueueSpec{
			Queue: &v1alpha1.QueueSpec{Name: v1alpha1.QueueName(canary)},
		}},
		&v1alpha1.Redrive{ObjectMeta: named, Spec: v1alpha1.RedriveSpec{
			ConsumerQueueRef: v1alpha1.LocalObjectReference{Name: "canary"}, Reason: canary,
		}},
		&v1alpha1.Purge{ObjectMeta: named, Spec: v1alpha1.PurgeSpec{
			ConsumerQueueRef: v1alpha1.LocalObjectReference{Name: "canary"}, ExpectedAtMost: 1, Reason: canary,
		}},
		&corev1.ConfigMap{ObjectMeta: named, Data: map[string]string{"canary": canary}},
		&eventsv1.Event{
			ObjectMeta: named, Regarding: corev1.ObjectReference{Kind: "ConsumerQueue", Namespace: namespace.Name, Name: "canary"},
			EventTime: metav1.NowMicro(), Type: corev1.EventTypeNormal, Reason: "Canary", Action: "Sing",
			ReportingController: "test", ReportingInstance: "test", Note: canary,
		},
	} {
		Expect(kube.Create(background, object)).To(Succeed())
	}
	ctrl.Log.Info("The canary sings", "password", canary)
	key := namespace.Name + "/canary"
	Eventually(w.leaks).Should(Equal([]string{
		"*v1.ConfigMap " + key, "*v1.Event " + key, "*v1alpha1.BrokerConnection " + key, "*v1alpha1.ConsumerQueue " + key,
		"*v1alpha1.Purge " + key, "*v1alpha1.Redrive " + key, "the log",
	}), "what the witness hears")
}

// The witness checks these texts at the end of the suite. This spec only uses the messages in every possible way.
var _ = Describe("The content of dead letters", func() {
	It("is not shown by browses, Redrives and Purges, even if they fail", func() {
		w := newWorld(newest)
		for _, name := range []string{"orders", "stuck"} {
			w.Queue(name, `{}`)
			w.Ready(name)
		}
		body, header, property := w.Hide(), w.Hide(), w.Hide()
		message := func(change func(*amqp.Publishing)) amqp.Publishing {
			m := amqp.Publishing{
				DeliveryMode: amqp.Persistent, Headers: amqp.Table{"h": header, "api-key": header, "raw": []byte(header)}, Body: []byte(body),
				MessageId: property, CorrelationId: property, Type: property, AppId: property, ContentType: property,
			}
			change(&m)
			return m
		}
		w.VHost.Send("", "orders.dlq",
			message(func(*amqp.Publishing) {}),
			message(func(m *amqp.Publishing) { m.Headers["long"] = strings.Repeat(header, 6000)[:130_600] }),
			message(func(m *amqp.Publishing) {
				m.Headers["x-original-exchange"], m.Headers["x-original-routing-key"] = header, header
			}),
			message(func(m *amqp.Publishing) {
				m.Headers["x-original-exchange"], m.Headers["x-original-routing-key"] = "amq.direct", header
			}),
			message(func(m *amqp.Publishing) { m.Headers["x-original-exchange"] = "amq.rabbitmq.trace" }),
		)
		// After a requeue, this message has one more header and is too large for a frame.
		w.VHost.Send("", "stuck.dlq", amqp.Publishing{
			DeliveryMode: amqp.Persistent, Headers: amqp.Table{"text": strings.Repeat(header, 6000)[:131_015]}, Body: []byte(body),
		})
		w.giveBack("stuck.dlq")

		reader := w.deadLetterClient(admin)
		for _, name := range []string{"orders", "stuck"} {
			for _, path := range []string{
				"", "?groupBy=h", "?groupBy=api-key", "/messages", "/messages?expression=int(headers.h)>3", "/messages?expression=body." + header + ">3",
				"/messages?expression=" + body + "(", "/messages?id=" + property, "/messages?reason=" + header, "/export", "/export?expression=body.x==1",
			} {
				Eventually(func() int {
					code, _ := reader.Request("/" + name + path)
					return code
				}).Should(BeElementOf(http.StatusOK, http.StatusBadRequest))
			}
		}
		w.Redrive("asks", `{consumerQueueRef: {name: orders}, selector: {expression: "int(headers.h) > 3 || body.x == 1"}, dryRun: true}`)
		w.EventuallyRedrive("asks", Condition("Ready", metav1.ConditionTrue, "DryRun"))
		w.Redrive("home", `{consumerQueueRef: {name: orders}, destination: {type: Original}}`)
		home := w.incomplete("home")
		Expect(home.Moved).To(HaveValue(BeZero()))
		w.Redrive("again", `{consumerQueueRef: {name: orders}}`)
		again := w.incomplete("again")
		Expect(again.Failures).To(ConsistOf(HaveField("Reason", "HeadersTooLarge")))
		w.Redrive("stuck", `{consumerQueueRef: {name: stuck}}`)
		w.EventuallyRedrive("stuck", Condition("Ready", metav1.ConditionFalse, "UnreadableMessage"))

		w.VHost.Send("", "orders.dlq", message(func(*amqp.Publishing) {}))
		w.Purge("few", `{consumerQueueRef: {name: orders}, expectedAtMost: 1}`)
		w.EventuallyPurge("few", Condition("Ready", metav1.ConditionFalse, "MoreThanExpected"))
		w.Purge("stuck", `{consumerQueueRef: {name: stuck}, expectedAtMost: 10}`)
		w.EventuallyPurge("stuck", Condition("Ready", metav1.ConditionFalse, "UnreadableMessage"))
		w.Purge("go", `{consumerQueueRef: {name: orders}, selector: {expression: "headers.h != ''"}, expectedAtMost: 2}`)
		w.purged("go")
		for _, hidden := range []string{body, header, property} {
			Expect(logged(hidden)).To(BeEmpty())
		}
	})
})

// giveBack receives a message and requeues it.
func (w *world) giveBack(queue string) {
	GinkgoHelper()
	connection, err := w.VHost.Connect("give back")
	Expect(err).NotTo(HaveOccurred())
	channel, err := connection.Channel()
	Expect(err).NotTo(HaveOccurred())
	messages, err := channel.Consume(queue, "", false, false, false, false, nil)
	Expect(err).NotTo(HaveOccurred())
	Eventually(messages).Should(Receive())
	Expect(connection.Close()).To(Succeed())
	Eventually(func() int { return w.VHost.Ready(queue) }).Should(Equal(1))
}

// A password is found in each of its forms, and nothing else is reported.
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
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			if got := len(leaks([]statement{{"here", text}}, accounts)) > 0; got != leaked {
				t.Errorf("leaked is %t, want %t", got, leaked)
			}
		})
	}
}
