package ui

import (
	"context"
	"embed"
	"errors"
	"net"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/deadletterclient"
)

// Config configures a Server.
type Config struct {
	// Kube acts as the user.
	Kube client.WithWatch
	// Namespace of the first page.
	Namespace string
	// Username is the user's name at the API server.
	Username func(context.Context) (string, error)
	// DeadLetters connects to the dead-letter API for the queues of a namespace.
	DeadLetters func(ctx context.Context, namespace string) (*deadletterclient.Client, error)
	// Explain describes an error with advice.
	Explain func(error) string
}

//go:embed assets
var assets embed.FS

// Server serves the pages.
type Server struct {
	Config
	guard *guard
}

// NewServer returns a Server for an address of this machine, host:port.
func NewServer(config Config, address string) *Server { return &Server{config, newGuard(address)} }

// URL returns the URL of the first page. It works once, in one browser.
func (s *Server) URL() string { return s.guard.url() }

// Serve serves the pages until the context ends.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err := server.Serve(listener)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// maxForm is the limit of a form in bytes: a thousand IDs fit.
const maxForm = 1 << 20

// Handler returns the handler of all pages. It limits a request body to maxForm bytes.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /assets/", http.FileServerFS(assets))
	const namespace = "/namespaces/{namespace}"
	const queue = namespace + "/queues/{queue}"
	for pattern, answer := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /{$}":                      s.toNamespace,
		"GET /all":                      s.queues,
		"GET " + namespace:              s.queues,
		"GET " + queue:                  s.queue,
		"GET " + queue + "/export":      s.export,
		"GET " + queue + "/recreation":  s.recreation,
		"POST " + queue + "/recreation": s.changeRecreation,
		"GET " + queue + "/{kind}":      s.askFor,
		"POST " + queue + "/{kind}":     s.request,
		"GET " + queue + "/ids/{id}":    s.message,
		"GET " + jobPath:                s.job,
		"GET " + jobPath + "/now":       s.progress,
		"POST " + jobPath:               s.change,
		"GET " + namespace + "/jobs":    s.jobs,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, maxForm)
			if err := answer(w, r); err != nil {
				s.fail(w, err)
			}
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { s.fail(w, errNoPage) })
	return s.guard.protect(http.StripPrefix(root, mux))
}

func (s *Server) toNamespace(w http.ResponseWriter, r *http.Request) error {
	http.Redirect(w, r, namespacePath(s.Namespace), http.StatusSeeOther)
	return nil
}
