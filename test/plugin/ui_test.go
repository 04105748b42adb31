package plugin

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	. "github.com/warren-mq/warren/test/testenv"
)

// deadLetter is a message that a consumer parked, with kind and message of the failure.
type deadLetter struct{ kind, message, body string }

var failures = []deadLetter{
	{"transient", "payment API: 503 Service Unavailable", `{"order":{"id":4711,"country":"DE","lines":[{"sku":"A-1","amount":2}]}}`},
	{"transient", "payment API: 503 Service Unavailable", `{"order":{"id":4712,"country":"FR","lines":[{"sku":"B-7","amount":1}]}}`},
	{"transient", "payment API: i/o timeout", `{"order":{"id":4713,"country":"DE","lines":[{"sku":"C-3","amount":9}]}}`},
	{"permanent", "order 4714: unknown country XX", `{"order":{"id":4714,"country":"XX","lines":[]}}`},
}

// fail publishes messages to orders.dlq like Warren's consumer library.
func (w *world) fail(deadLetters ...deadLetter) {
	GinkgoHelper()
	before := w.VHost.Ready("orders.dlq")
	messages := make([]amqp.Publishing, len(deadLetters))
	for i, each := range deadLetters {
		messages[i] = amqp.Publishing{
			DeliveryMode: amqp.Persistent, ContentType: "application/json", Body: []byte(each.body),
			Headers: amqp.Table{"x-failure-kind": each.kind, "x-failure-message": each.message, "tenant": "acme"},
		}
	}
	w.VHost.Send("", "orders.dlq", messages...) // together: a status that counts some of them would keep that number
	Eventually(func() int { return w.VHost.Ready("orders.dlq") }).Should(Equal(before + len(deadLetters)))
}

// failing returns a world with failed messages and a ServiceAccount that may browse them.
func failing(deadLetters ...deadLetter) *world {
	GinkgoHelper()
	w := newWorld()
	w.queue("orders", `{}`)
	w.queue("invoices", `{}`)
	w.fail(deadLetters...)
	w.Account("warren-dead-letters", "deadletterqueue_admin_role")
	// A page is loaded only once. Before that, the account must be authorized, and earlier browses must have returned their messages.
	w.eventuallyWarren(HaveField("Out", ContainSubstring(fmt.Sprintf("Queue orders.dlq: %d message", len(deadLetters)))), "dlq", "show", "orders")
	w.EventuallyMessages("orders.dlq", Equal(len(deadLetters)))
	Eventually(func() int64 {
		if counted := w.Get("orders").Status.Messages; counted != nil && counted.DeadLettered != nil {
			return *counted.DeadLettered
		}
		return -1
	}).Should(BeEquivalentTo(1+min(len(deadLetters)-1, 8)), "counted")
	return w
}

var _ = Describe("kubectl warren ui", Extended, func() {
	It("shows failed messages by reason with counts, and moves a group back", func() {
		w := failing(failures...)
		b := open(w.serve(), 1200)
		Eventually(b.text).Should(SatisfyAll(HavePrefix("4 dead letters in "+w.Namespace), ContainSubstring("orders orders.dlq 4"),
			ContainSubstring("1 queue without dead letters")))
		b.screenshot("ui-queues")
		Expect(evaluate[bool](b, `(htmx.ajax("GET", "/nowhere", "#queues"), true)`)).To(BeTrue())
		Eventually(b.text).Should(HavePrefix("This page could not be refreshed."))

		b.follow(`//a[text()="orders"]`, "orders: 4 dead letters")
		Eventually(b.text).Should(SatisfyAll(ContainSubstring("3 Parked a consumer published the message to the dead-letter queue transient"),
			ContainSubstring("payment API: 503 Service Unavailable"), ContainSubstring("1 Parked a consumer published the message to the dead-letter queue permanent")))
		b.screenshot("ui-queue")
		b.dark()
		b.screenshot("ui-queue-dark")

		w.EventuallyMessages("orders.dlq", Equal(4))
		b.follow(`//table[1]//tr[td//code="permanent"]//td[contains(@class, "sample")]/a`, "Parked: a consumer published")
		Eventually(b.text).Should(SatisfyAll(ContainSubstring(`"country": "XX"`), ContainSubstring("x-failure-message: order 4714: unknown country XX"),
			ContainSubstring("contentType application/json")))
		b.screenshot("ui-message")

		w.EventuallyMessages("orders.dlq", Equal(4))
		b.follow(`//nav//a[text()="orders"]`, "orders: 4 dead letters")
		b.follow(`//table[1]//tr[td//code="transient"]//a[text()="Move back…"]`, "Move dead letters of orders back")
		b.run(chromedp.SetValue("#rate", "2"), chromedp.SendKeys("#why", "INC-4711: the payment API is back"))
		b.screenshot("ui-redrive")
		w.EventuallyMessages("orders.dlq", Equal(4))
		b.follow(`//button[text()="Count"]`, "Move 3 messages?")
		Eventually(b.text).Should(ContainSubstring("3 of 4 messages would be moved, 1 skipped (NotSelected)"))
		Expect(w.redrives()).To(BeEmpty(), "the one that counts is deleted")
		b.screenshot("ui-confirm")
		w.EventuallyMessages("orders.dlq", Equal(4))
		b.follow(`//button[text()="Move 3 messages"]`, "3 moved Completed")
		Eventually(b.text).Should(ContainSubstring("3 of 4 messages moved"))
		b.screenshot("ui-progress")

		Expect(w.redrives()).To(ConsistOf(HaveField("Spec", SatisfyAll(HaveField("RequestedBy", "admin"),
			HaveField("Reason", "INC-4711: the payment API is back"), HaveField("TTLSecondsAfterFinished", HaveValue(BeEquivalentTo(86400)))))))
		Eventually(func() int { return w.VHost.Ready("orders") }).Should(Equal(3))
		w.EventuallyMessages("orders.dlq", Equal(1))
		b.follow(`//a[text()="Back to the queue"]`, "orders: 1 dead letter")
	})

	It("shows the progress of a Redrive without a reload, and cancels it", func() {
		w := failing(failures...)
		w.park("invoices.dlq", 200)
		w.Redrive("slow", `{consumerQueueRef: {name: invoices}, rate: 2}`)
		b := open(w.serve(), 1200)
		b.run(chromedp.Navigate(base(b) + "/namespaces/" + w.Namespace + "/jobs/redrive/slow"))
		Eventually(b.text).Should(MatchRegexp(`^[1-9]\d* moved of 200 Moving`))

		By("the page of the queue, which lists the messages that the Redrive does not hold")
		b.run(chromedp.Navigate(base(b) + "/namespaces/" + w.Namespace + "/queues/invoices"))
		Eventually(b.text).Should(MatchRegexp(
			`^invoices: [1-9]\d* dead letters under way .* Redrive slow takes messages from this queue.* Grouped by reason`))
		b.screenshot("ui-queue-moving")
		Expect(w.warren("dlq", "suspend", "slow")).To(HaveField("Code", 0))
		Eventually(b.text).Should(MatchRegexp(`^invoices: [1-9]\d* dead letters in queue .* Grouped by reason`), "the page loads itself again")

		b.follow(`//a[text()="Redrive slow"]`, "Suspended")
		b.follow(`//button[text()="Cancel"]`, "Cancelled")
		Expect(w.EventuallyRedrive("slow", HaveField("Spec.Cancel", BeTrue()))).NotTo(BeNil())
	})

	It("follows a link that is pressed while the list refreshes", func() {
		w := failing(failures...)
		b := open(w.serve(), 1200)
		refresh := func(event string) {
			GinkgoHelper()
			Expect(evaluate[bool](b, fmt.Sprintf(`(() => {
				dispatchEvent(new PointerEvent(%q))
				htmx.ajax("GET", location.href, {target: "#queues", select: "#queues", swap: "outerHTML"}).then(() => { globalThis.refreshed = %[1]q })
				return true
			})()`, event))).To(BeTrue())
			Eventually(func() string { return evaluate[string](b, `globalThis.refreshed ?? ""`) }).Should(Equal(event))
		}
		isReplaced := func() bool {
			return evaluate[bool](b, `globalThis.link !== document.querySelector("#queues a.strong")`)
		}
		Expect(evaluate[bool](b, `(globalThis.link = document.querySelector("#queues a.strong"), true)`)).To(BeTrue())
		refresh("pointerdown")
		Expect(isReplaced()).To(BeFalse(), "the link is pressed")
		refresh("pointerup")
		Eventually(isReplaced).Should(BeTrue(), "the link is not pressed any more")
	})

	It("moves the chosen messages", func() {
		w := failing(failures...)
		b := open(w.serve(), 1200)
		b.follow(`//a[text()="orders"]`, "orders: 4 dead letters")
		Expect(evaluate[bool](b, `[...document.querySelectorAll("#dead-letters button")].every((button) => button.disabled)`)).To(BeTrue(), "no message is chosen")
		b.run(chromedp.Click(`//input[@aria-label="Choose the message at position 1"]`), chromedp.Click(`//input[@aria-label="Choose the message at position 3"]`))
		b.follow(`//button[text()="Move the chosen back…"]`, "2 chosen messages")
		w.EventuallyMessages("orders.dlq", Equal(4))
		b.follow(`//button[text()="Count"]`, "Move 2 messages?")
		w.EventuallyMessages("orders.dlq", Equal(4))
		b.follow(`//button[text()="Move 2 messages"]`, "2 moved Completed")
		w.EventuallyMessages("orders", Equal(2))
	})

	It("deletes only if the user types the number", func() {
		w := failing(failures...)
		b := open(w.serve(), 1200)
		b.follow(`//a[text()="orders"]`, "orders: 4 dead letters")
		b.follow(`//a[text()="Delete…"]`, "Delete dead letters of orders")
		b.run(chromedp.SendKeys("#expression", `body.order.country == "XX"`))
		w.EventuallyMessages("orders.dlq", Equal(4))
		b.follow(`//button[text()="Count"]`, "Delete 1 message?")
		b.screenshot("ui-purge")
		b.run(chromedp.SendKeys("#typed", "4"))
		b.follow(`//button[text()="Delete 1 message permanently"]`, "Nothing was deleted")
		w.EventuallyMessages("orders.dlq", Equal(4))
		b.run(chromedp.SendKeys("#typed", "1"))
		b.follow(`//button[text()="Delete 1 message permanently"]`, "1 deleted Completed")
		Eventually(func() int { return w.VHost.Ready("orders.dlq") }).Should(Equal(3))
	})

	It("explains missing permissions", func() {
		w := failing(failures...)
		w.letEdit()
		b := open(w.serve("--as=editor"), 1200)
		b.follow(`//a[text()="orders"]`, "orders: 4 dead letters")
		b.run(chromedp.Navigate(base(b) + "/namespaces/" + w.Namespace + "/queues/orders/redrive"))
		b.follow(`//button[text()="Count"]`, "Permission denied")
		Eventually(b.text).Should(SatisfyAll(ContainSubstring(`User "editor" cannot create resource "redrives"`), ContainSubstring("ask for a role in the namespace")))
		b.run(chromedp.Navigate(base(b) + "/all"))
		Eventually(b.text).Should(SatisfyAll(HavePrefix("Permission denied"), ContainSubstring("consumerqueues.messaging.warren.dev is forbidden")))

		stranger := open(w.serve("--as=stranger"), 1200)
		Eventually(stranger.text).Should(HavePrefix("Permission denied"))
	})

	It("shows a ServiceAccount with the role view counts, and why it shows no messages", func() {
		w := newWorld()
		w.queue("orders", `{}`)
		w.fail(failures...)
		w.Account("warren-dead-letters", "deadletterqueue_viewer_role")
		w.eventuallyWarren(HaveField("Out", ContainSubstring("Queue orders.dlq: 4 messages")), "dlq", "show", "orders")
		w.EventuallyMessages("orders.dlq", Equal(4))
		b := open(w.serve(), 1200)
		b.run(chromedp.Navigate(base(b) + "/namespaces/" + w.Namespace + "/queues/orders"))
		Eventually(b.text).Should(SatisfyAll(ContainSubstring("3 Parked"), ContainSubstring(`cannot get resource "deadletterqueues/messages"`),
			Not(ContainSubstring("payment API"))))
	})

	It("says why a queue with a delivery limit cannot be browsed, and moves all its messages", func() {
		w := newWorld()
		w.queue("orders", `{deadLetter: {queue: {deliveryLimit: 3}}}`)
		w.fail(failures...)
		w.Account("warren-dead-letters", "deadletterqueue_editor_role")
		w.eventuallyWarren(HaveField("ErrOut", ContainSubstring("has a delivery limit")), "dlq", "show", "orders")
		b := open(w.serve(), 1200)
		b.run(chromedp.Navigate(base(b) + "/namespaces/" + w.Namespace + "/queues/orders"))
		Eventually(b.text).Should(SatisfyAll(ContainSubstring("has a delivery limit"), ContainSubstring("DeadLettersCanBeLost")))
		b.follow(`//a[text()="Move back…"]`, "Move dead letters of orders back")
		b.run(chromedp.SetValue("#to", "Original"))
		b.follow(`//button[text()="Count"]`, "Move all messages, uncounted?")
		Eventually(b.text).Should(SatisfyAll(ContainSubstring("the exchange that each message was first published to"), ContainSubstring("100 a second")))
		b.run(chromedp.NavigateBack(), chromedp.WaitVisible("#to"), chromedp.SetValue("#to", "Main"))
		b.follow(`//button[text()="Count"]`, "Move all messages, uncounted?")
		Eventually(b.text).Should(ContainSubstring("the main queue"))
		b.follow(`//button[text()="Move all"]`, "4 moved Completed")
	})

	It("shows the content of messages as text", func() {
		const attack = `<script>document.title="owned"</script><img src=x onerror="document.title='owned'">`
		w := failing(deadLetter{kind: attack, message: attack, body: attack}, deadLetter{kind: `"><b>`, message: "javascript:alert(1)", body: `{"a":"` + "\u202e" + `</pre><script>"}`})
		b := open(w.serve(), 1200)
		b.follow(`//a[text()="orders"]`, "orders: 2 dead letters")
		Eventually(b.text).Should(ContainSubstring(`<script>document.title="owned"</script>`))
		isText := func() {
			GinkgoHelper()
			Expect(evaluate[int](b, `document.querySelectorAll("main script, main img, main b").length`)).To(BeZero())
			Expect(evaluate[string](b, `document.title`)).NotTo(ContainSubstring("owned"))
		}
		isText()
		w.EventuallyMessages("orders.dlq", Equal(2))
		b.follow(`(//td[contains(@class, "sample")]/a)[last()]`, "Came from")
		isText()
		Expect(evaluate[string](b, `(() => {
			const script = document.createElement("script")
			script.textContent = "document.title = 'owned'"
			document.body.append(script)
			return document.title
		})()`)).NotTo(Equal("owned"), "the policy forbids inline code")
	})

	It("can be used with only a keyboard", func() {
		w := failing(failures...)
		b := open(w.serve(), 1200)
		b.tabTo("orders")
		b.run(chromedp.KeyEvent(kb.Enter))
		Eventually(b.text).Should(ContainSubstring("orders: 4 dead letters"))
		b.tabTo("Move back…")
		b.run(chromedp.KeyEvent(kb.Enter))
		Eventually(b.text).Should(ContainSubstring("Move dead letters of orders back"))
		b.tabTo("Count")
		w.EventuallyMessages("orders.dlq", Equal(4))
		b.run(chromedp.KeyEvent(kb.Enter))
		Eventually(b.text).Should(ContainSubstring("Move 4 messages?"))
		focused := func() string { return evaluate[string](b, `document.activeElement.textContent`) }
		Eventually(focused).Should(Equal("Move 4 messages"), "the answer gets the focus")
		w.EventuallyMessages("orders.dlq", Equal(4))
		b.run(chromedp.KeyEvent(kb.Enter))
		Eventually(b.text).Should(ContainSubstring("4 moved Completed"))
	})

	It("fits on a phone, in light and dark", func() {
		w := failing(failures...)
		b := open(w.serve(), 320)
		for _, page := range []string{"", "/queues/orders", "/queues/orders/redrive", "/queues/orders/purge"} {
			b.run(chromedp.Navigate(base(b)+"/namespaces/"+w.Namespace+page), chromedp.WaitVisible("h1"))
			Expect(evaluate[int](b, `document.documentElement.scrollWidth`)).To(Equal(320), "nothing is beside the screen: %s", page)
		}
		w.EventuallyMessages("orders.dlq", Equal(4))
		b.run(chromedp.Navigate(base(b)+"/namespaces/"+w.Namespace+"/queues/orders"), chromedp.WaitVisible("h1"))
		b.screenshot("ui-phone")
		light := evaluate[string](b, `getComputedStyle(document.body).backgroundColor`)
		b.dark()
		Expect(evaluate[string](b, `getComputedStyle(document.body).backgroundColor`)).NotTo(Equal(light))
		w.EventuallyMessages("orders.dlq", Equal(4))
		b.run(chromedp.Click(`(//td[contains(@class, "sample")]/a)[1]`), chromedp.WaitVisible("pre"))
		Expect(evaluate[int](b, `document.documentElement.scrollWidth`)).To(Equal(320), "a message")
	})

	It("works without JavaScript", func() {
		w := failing(failures...)
		client, base := w.visitor()
		answer := post(client, base+"/namespaces/"+w.Namespace+"/queues/orders/redrive", base, url.Values{"reason": {"Parked"}})
		Expect(answer).To(SatisfyAll(HaveHTTPStatus(http.StatusOK), HaveHTTPBody(ContainSubstring("Move 4 messages?"))))
		w.EventuallyMessages("orders.dlq", Equal(4))
		answer = post(client, base+"/namespaces/"+w.Namespace+"/queues/orders/redrive", base, url.Values{"reason": {"Parked"}, "counted": {"4"}})
		Expect(answer).To(SatisfyAll(HaveHTTPStatus(http.StatusOK), HaveHTTPBody(ContainSubstring("<h1>"))))
		name := answer.Request.URL.Path[strings.LastIndex(answer.Request.URL.Path, "/")+1:]
		w.EventuallyRedrive(name, HaveField("Status.Moved", HaveValue(BeEquivalentTo(4))), HaveField("Status.CompletionTime", Not(BeNil())))
	})

	It("exports all messages", func() {
		w := failing(failures...)
		client, base := w.visitor()
		answer := get(client, base+"/namespaces/"+w.Namespace+"/queues/orders/export")
		Expect(answer).To(SatisfyAll(HaveHTTPStatus(http.StatusOK), HaveHTTPHeaderWithValue("Content-Disposition", "attachment; filename=orders.ndjson")))
		content, err := io.ReadAll(answer.Body)
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.Split(string(content), "\n")).To(HaveExactElements(ContainSubstring(`"position":0`), ContainSubstring(`"position":1`),
			ContainSubstring(`"position":2`), ContainSubstring(`"position":3`), ContainSubstring(`"kind":"ExportEnd","count":4`), BeEmpty()))
	})

	It("accepts the URL once, and no requests from other sites", func() {
		w := failing(failures...)
		entry := w.serve()
		Expect(entry).To(HavePrefix("http://127.0.0.1:"), "no other machine reaches the pages")
		base, _, _ := strings.Cut(entry, "/?")
		site := base[:strings.LastIndex(base, "/")]
		queue := base + "/namespaces/" + w.Namespace + "/queues/orders"

		stranger := &http.Client{}
		for _, path := range []string{"/", "/all", "/assets/style.css", "/?token=guess"} {
			Expect(get(stranger, base+path)).To(HaveHTTPStatus(http.StatusUnauthorized), path)
			Expect(get(stranger, site+path)).To(HaveHTTPStatus(http.StatusUnauthorized), path)
		}
		jar, err := cookiejar.New(nil)
		Expect(err).NotTo(HaveOccurred())
		known := &http.Client{Jar: jar}
		entered := get(known, entry)
		Expect(entered).To(HaveHTTPStatus(http.StatusOK))
		Expect(entered.Header.Get("Set-Cookie")).To(SatisfyAll(ContainSubstring("HttpOnly"), ContainSubstring("SameSite=Strict")))
		elsewhere, err := url.Parse("http://127.0.0.1:1/all")
		Expect(err).NotTo(HaveOccurred())
		Expect(jar.Cookies(elsewhere)).To(BeEmpty(), "cookies for a page at another port")
		page := get(known, queue)
		Expect(page).To(SatisfyAll(HaveHTTPStatus(http.StatusOK),
			HaveHTTPHeaderWithValue("Content-Security-Policy", ContainSubstring("default-src 'none'; script-src 'self';")),
			HaveHTTPHeaderWithValue("Cache-Control", "no-store"), HaveHTTPHeaderWithValue("X-Frame-Options", "DENY")))
		Expect(get(stranger, entry)).To(HaveHTTPStatus(http.StatusUnauthorized), "the URL was used")

		By("a request with another host name that resolves to this address")
		request, err := http.NewRequestWithContext(ctx(), http.MethodGet, queue, http.NoBody)
		Expect(err).NotTo(HaveOccurred())
		request.Host = "rebound.example.com"
		answer, err := known.Do(request)
		Expect(err).NotTo(HaveOccurred())
		Expect(answer).To(HaveHTTPStatus(http.StatusMisdirectedRequest))

		By("a form of another site with the cookie")
		Expect(post(known, queue+"/redrive", "http://evil.example.com", url.Values{"counted": {"4"}})).To(HaveHTTPStatus(http.StatusForbidden))
		Expect(w.redrives()).To(BeEmpty())
	})
})

// tabTo presses Tab until a link or button with this text has the focus.
func (b browser) tabTo(text string) {
	GinkgoHelper()
	for range 60 {
		b.run(chromedp.KeyEvent(kb.Tab))
		if evaluate[string](b, `document.activeElement.textContent.trim()`) == text {
			return
		}
	}
	Fail("Tab does not reach " + text)
}

// base returns the URL of the page's root.
func base(b browser) string {
	return evaluate[string](b, `location.origin + "/" + location.pathname.split("/")[1]`)
}

// visitor is an authenticated client with the address.
func (w *world) visitor() (client *http.Client, base string) {
	GinkgoHelper()
	entry := w.serve()
	jar, err := cookiejar.New(nil)
	Expect(err).NotTo(HaveOccurred())
	client = &http.Client{Jar: jar}
	Expect(get(client, entry)).To(HaveHTTPStatus(http.StatusOK))
	base, _, _ = strings.Cut(entry, "/?")
	return client, base
}

func get(client *http.Client, address string) *http.Response {
	GinkgoHelper()
	request, err := http.NewRequestWithContext(ctx(), http.MethodGet, address, http.NoBody)
	Expect(err).NotTo(HaveOccurred())
	return do(client, request)
}

// post sends a form like a page of the same origin.
func post(client *http.Client, address, origin string, form url.Values) *http.Response {
	GinkgoHelper()
	request, err := http.NewRequestWithContext(ctx(), http.MethodPost, address, strings.NewReader(form.Encode()))
	Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Origin", origin)
	return do(client, request)
}

func do(client *http.Client, request *http.Request) *http.Response {
	GinkgoHelper()
	answer, err := client.Do(request)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(answer.Body.Close)
	return answer
}
