package ui

import (
	"bytes"
	"crypto/rand"
	"embed"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/deadletterclient"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/deadlettertext"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/jobs"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/printable"
)

//go:embed templates
var templateFiles embed.FS

// templates are the pages by name, each with the common frame.
var templates = parseTemplates("queues", "queue", "message", "request", "confirm", "job", "jobs", "recreation", "error")

func parseTemplates(names ...string) map[string]*template.Template {
	frame := template.Must(template.New("frame").Funcs(template.FuncMap{
		"ago": ago, "count": thousands, "plural": plural, "path": path, "stamp": stamp, "text": printable.Text,
		"value": deadlettertext.ValueText, "done": func(job jobs.Job) string { return job.DoneText(thousands) },
		"died": deadlettertext.ReasonText, "int64": func(number int) int64 { return int64(number) }, "warning": deadlettertext.WarningText,
	}).ParseFS(templateFiles, "templates/frame.html", "templates/parts.html"))
	pages := map[string]*template.Template{}
	for _, name := range names {
		pages[name] = template.Must(template.Must(frame.Clone()).ParseFS(templateFiles, "templates/"+name+".html"))
	}
	return pages
}

// render writes a page. If a page cannot be rendered, it returns an error and writes nothing.
func render(w http.ResponseWriter, name string, data any) error {
	return renderAs(w, http.StatusOK, name, data)
}

func renderAs(w http.ResponseWriter, code int, name string, data any) error {
	page := &bytes.Buffer{}
	if err := templates[name].ExecuteTemplate(page, "frame", data); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = page.WriteTo(w) // an error means that the browser is gone
	return nil
}

var errNoPage = &problem{http.StatusNotFound, "There is no such page."}

// problem is an error whose text is shown on the page.
type problem struct {
	code int
	text string
}

func (p *problem) Error() string { return p.text }

type errorPage struct {
	Title string
	Lines []string
}

// fail shows an error page with advice.
func (s *Server) fail(w http.ResponseWriter, err error) {
	code := codeOf(err)
	title := "The request failed"
	switch code {
	case http.StatusForbidden:
		title = "Permission denied"
	case http.StatusNotFound:
		title = "Not found"
	}
	if err := renderAs(w, code, "error", errorPage{title, printable.Lines(s.Explain(err))}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// codeOf returns the HTTP status of an error.
func codeOf(err error) int {
	if known, ok := errors.AsType[*problem](err); ok {
		return known.code
	}
	if response, ok := errors.AsType[*deadletterclient.Error](err); ok && response.Code() != 0 {
		return response.Code()
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Code != 0 {
		return int(status.Status().Code)
	}
	return http.StatusBadGateway
}

// root is the secret prefix of all paths. Browsers separate cookies of one host by path, not by port.
var root = "/" + rand.Text()

// path joins the parts of a path below root, and escapes them.
func path(parts ...string) string {
	joined := &strings.Builder{}
	joined.WriteString(root)
	for _, part := range parts {
		joined.WriteString("/" + url.PathEscape(part))
	}
	return joined.String()
}

func namespacePath(namespace string) string { return path("namespaces", namespace) }

// thousands formats a number in groups of three digits.
func thousands(number int64) string {
	digits := strconv.FormatInt(number, 10)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// plural formats a number with its noun.
func plural(number int64, noun string) string {
	if number == 1 {
		return "1 " + noun
	}
	return thousands(number) + " " + noun + "s"
}

// ago formats the age of a time.
func ago(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return duration.HumanDuration(max(0, time.Since(at))) + " ago" // clocks differ
}

// stamp formats a time as RFC 3339.
func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }
