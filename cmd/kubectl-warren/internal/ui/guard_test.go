package ui

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

// Only the browser that opened the printed URL is admitted, and that URL works once.
func TestGuard(t *testing.T) {
	t.Parallel()
	const address = "127.0.0.1:8080"
	for name, test := range map[string]struct {
		host, cookie, token, origin string
		method                      string
		used                        bool // the token
		want                        int
	}{
		"the printed URL":                  {host: address, token: "once", want: http.StatusOK},
		"the printed URL, a second time":   {host: address, token: "once", used: true, want: http.StatusUnauthorized},
		"another token":                    {host: address, token: "guessed", want: http.StatusUnauthorized},
		"a token in a POST":                {host: address, token: "once", method: http.MethodPost, want: http.StatusUnauthorized},
		"the session":                      {host: address, cookie: "session", want: http.StatusNoContent},
		"the session at localhost":         {host: "localhost:8080", cookie: "session", want: http.StatusNoContent},
		"another session":                  {host: address, cookie: "guessed", want: http.StatusUnauthorized},
		"another name of the same address": {host: "rebound.example:8080", cookie: "session", want: http.StatusMisdirectedRequest},
		"a form of a page of another site": {host: address, cookie: "session", method: http.MethodPost, origin: "https://evil.example", want: http.StatusForbidden},
		"a form of the page itself":        {host: address, cookie: "session", method: http.MethodPost, origin: "http://" + address, want: http.StatusNoContent},
		"the printed URL at another name":  {host: "rebound.example:8080", token: "once", want: http.StatusMisdirectedRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGuard(address)
			g.token, g.session = "once", "session"
			g.used.Store(test.used)
			request := httptest.NewRequestWithContext(t.Context(), test.method, path("")+"?"+tokenParameter+"="+test.token, http.NoBody)
			request.Host = test.host
			request.AddCookie(&http.Cookie{Name: cookieName, Value: test.cookie})
			if test.origin != "" {
				request.Header.Set("Origin", test.origin)
			}
			recorder := httptest.NewRecorder()
			g.protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })).
				ServeHTTP(recorder, request)
			if recorder.Code != test.want {
				t.Errorf("status %d, want %d: %s", recorder.Code, test.want, recorder.Body)
			}
		})
	}
}

// Pages show dead letters, and move or delete them. So no other site may embed them or send the session, and no program keeps them.
func TestHeadersOfEachAnswer(t *testing.T) {
	t.Parallel()
	g := newGuard("127.0.0.1:8080")
	var cookies []string
	for _, host := range []string{g.address, "rebound.example:8080"} {
		for _, token := range []string{g.token, "guessed"} {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path("")+"?"+tokenParameter+"="+token, http.NoBody)
			request.Host = host
			recorder := httptest.NewRecorder()
			g.protect(http.NotFoundHandler()).ServeHTTP(recorder, request)
			for name, want := range map[string]string{
				"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
					"form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
				"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin",
				"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
			} {
				if got := recorder.Header().Get(name); got != want {
					t.Errorf("status %d: %s is %q, want %q", recorder.Code, name, got, want)
				}
			}
			cookies = append(cookies, recorder.Header().Values("Set-Cookie")...)
		}
	}
	want := []string{cookieName + "=" + g.session + "; Path=" + path("") + "; HttpOnly; SameSite=Strict"}
	if !slices.Equal(cookies, want) {
		t.Errorf("cookies %q, want %q", cookies, want)
	}
}
