package ui

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
)

// guard admits only the browser that opened the printed URL. Other programs and users of the machine, and pages of other sites in the
// same browser, can reach the port.
type guard struct {
	address string
	hosts   []string
	// token is in the URL, and valid once. session is the cookie that replaces it.
	token, session string
	used           atomic.Bool
	crossOrigin    *http.CrossOriginProtection
}

func newGuard(address string) *guard {
	_, port, _ := net.SplitHostPort(address)
	return &guard{
		address: address, hosts: []string{address, net.JoinHostPort("localhost", port)}, token: rand.Text(), session: rand.Text(),
		crossOrigin: http.NewCrossOriginProtection(),
	}
}

func (g *guard) url() string {
	return "http://" + g.address + path("") + "?" + tokenParameter + "=" + g.token
}

const tokenParameter = "token"

const cookieName = "kubectl-warren-ui"

// policy allows pages to load, send and run only content of this server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'"

func setSecurityHeaders(header http.Header) {
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
}

// protect rejects requests from others.
func (g *guard) protect(pages http.Handler) http.Handler {
	pages = g.crossOrigin.Handler(pages)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setSecurityHeaders(w.Header())
		switch {
		case !slices.Contains(g.hosts, r.Host): // another name that resolves to this address: DNS rebinding
			http.Error(w, "This is not the host that `kubectl warren ui` printed.", http.StatusMisdirectedRequest)
		case g.isKnown(r):
			pages.ServeHTTP(w, r)
		case g.admits(r):
			g.enter(w)
		default:
			http.Error(w, "Open the URL that `kubectl warren ui` printed. It works once: restart the command for another browser.",
				http.StatusUnauthorized)
		}
	})
}

func (g *guard) isKnown(r *http.Request) bool {
	cookie, err := r.Cookie(cookieName)
	return err == nil && isSame(cookie.Value, g.session)
}

// admits reports whether a request carries the unused token.
func (g *guard) admits(r *http.Request) bool {
	return r.Method == http.MethodGet && r.URL.Path == path("") && isSame(r.URL.Query().Get(tokenParameter), g.token) &&
		g.used.CompareAndSwap(false, true)
}

func isSame(given, want string) bool {
	return subtle.ConstantTimeCompare([]byte(given), []byte(want)) == 1
}

// enter sets the cookie. The page forwards by itself, because a browser sends no strict cookie after a redirect from another
// site.
func (g *guard) enter(w http.ResponseWriter) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: g.session, Path: path(""), HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = fmt.Fprintf(w, `<!doctype html><meta http-equiv="refresh" content="0;url=%[1]s"><a href="%[1]s">Dead letters</a>`, path(""))
}
