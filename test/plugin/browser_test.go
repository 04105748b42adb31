package plugin

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
)

// chromium is the path of the browser.
var chromium = sync.OnceValue(func() string {
	command := exec.CommandContext(context.Background(), filepath.Join(Checkout, "hack", "chromium.sh"), "path")
	command.Stderr = GinkgoWriter
	path, err := command.Output()
	Expect(err).NotTo(HaveOccurred(), "hack/chromium.sh path")
	return strings.TrimSpace(string(path))
})

// serve runs `kubectl warren ui` until the test ends and returns the URL that it prints.
func (w *world) serve(args ...string) string {
	GinkgoHelper()
	command := w.command(append([]string{"ui"}, args...)...)
	out, err := command.StdoutPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(command.Start()).To(Succeed())
	DeferCleanup(func() {
		Expect(command.Process.Signal(interrupt)).To(Succeed())
		Expect(command.Wait()).To(Succeed(), "Ctrl-C ends the command cleanly")
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(url)
}

// browser is a window of a headless Chromium.
type browser struct{ ctx context.Context }

// open opens a URL in a new browser with this width.
func open(url string, width int64) browser {
	GinkgoHelper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium()), chromedp.NoSandbox,
		chromedp.DisableGPU, chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("force-color-profile", "srgb"), chromedp.WSURLReadTimeout(deadline.For(30*time.Second)))
	allocated, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	DeferCleanup(cancel)
	window, closeWindow := chromedp.NewContext(allocated)
	DeferCleanup(closeWindow)
	Expect(chromedp.Do(window)).To(Succeed()) // the browser lives as long as the context of the first call
	b := browser{window}
	b.run(chromedp.EmulateViewport(width, 900), chromedp.Navigate(url))
	Eventually(b.text).ShouldNot(BeEmpty()) // the entry page redirects
	return b
}

// run runs actions and fails the test if they take too long.
func (b browser) run(actions ...chromedp.Action[chromedp.Void]) {
	GinkgoHelper()
	limited, cancel := context.WithTimeout(b.ctx, deadline.For(20*time.Second))
	defer cancel()
	for _, action := range actions {
		err := chromedp.Do(limited, action)
		for isForgottenNode(err) {
			err = chromedp.Do(limited, action)
		}
		Expect(err).NotTo(HaveOccurred())
	}
}

// isForgottenNode reports whether an action had no effect because its node no longer exists: when a page has loaded, or refreshes itself,
// nodes get other IDs.
func isForgottenNode(err error) bool {
	refused, ok := errors.AsType[*cdproto.Error](err)
	return ok && refused.Message == "Could not find node with given id"
}

// value runs an action that returns a value.
func value[T any](b browser, action chromedp.Action[T]) T {
	GinkgoHelper()
	limited, cancel := context.WithTimeout(b.ctx, deadline.For(20*time.Second))
	defer cancel()
	found, err := chromedp.Run(limited, action)
	Expect(err).NotTo(HaveOccurred())
	return found
}

// text returns the visible text of the page, or "" until it has loaded. Before that, the stylesheet may still move elements.
func (b browser) text() string {
	limited, cancel := context.WithTimeout(b.ctx, deadline.For(20*time.Second))
	defer cancel()
	text, err := chromedp.Run(limited, chromedp.Evaluate[string](
		`document.readyState === "complete" ? document.querySelector("main")?.innerText ?? "" : ""`))
	if err != nil {
		return ""
	}
	return strings.Join(strings.Fields(text), " ")
}

// follow clicks a link or button and waits until another page has loaded.
func (b browser) follow(selector, heading string) {
	GinkgoHelper()
	b.run(chromedp.Click(selector, chromedp.NodeVisible))
	Eventually(b.text).Should(ContainSubstring(heading))
}

// evaluate returns the value of a JavaScript expression.
func evaluate[T any](b browser, expression string) T {
	GinkgoHelper()
	return value(b, chromedp.Evaluate[T](expression))
}

// dark switches the page to the dark color scheme.
func (b browser) dark() {
	GinkgoHelper()
	b.run(func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}},
		})
		return chromedp.Void{}, err
	})
}

// screenshot saves a picture for the docs if WARREN_SCREENSHOTS is set.
func (b browser) screenshot(name string) {
	GinkgoHelper()
	folder := os.Getenv("WARREN_SCREENSHOTS")
	if folder == "" {
		return
	}
	Expect(os.WriteFile(filepath.Join(folder, name+".png"), value(b, chromedp.FullScreenshot(100)), 0o644)).To(Succeed())
}
