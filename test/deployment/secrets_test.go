package deployment

import (
	"encoding/base64"
	"net/http"
	"path"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

// All traffic between the manager and the API server passes the recorder, so the manager does not have data that the
// recorder has not seen.
var _ = Describe("Secrets", func() {
	It("are read one by one when a BrokerConnection references them, and only as metadata otherwise", func() {
		const content = "what is in a Secret that nobody names"
		s := startFixture(whole, "")
		s.create(&corev1.Secret{StringData: map[string]string{"password": content}}, "nobodys")
		s.runTasks()
		Expect(s.refused()).To(BeEmpty())

		read := map[string]bool{}
		for _, passed := range s.recorder.all() {
			folder, name := path.Split(passed.url.Path)
			switch {
			case strings.HasSuffix(folder, "/secrets/"):
				Expect(passed.method).To(Equal(http.MethodGet))
				Expect(name).To(Equal("rabbitmq"))
				read["one, whole"] = read["one, whole"] || passed.contains(s.user.Password)
			case name == "secrets":
				Expect(passed.method).To(Equal(http.MethodGet))
				read["all, listed or watched"] = read["all, listed or watched"] || passed.contains("nobodys")
				fallthrough
			default:
				Expect(passed.contains(content) || passed.contains(s.user.Password)).To(BeFalse(), "%s %s", passed.method, passed.url)
			}
		}
		// This shows that the recorder finds the content of Secrets.
		Expect(read).To(Equal(map[string]bool{"one, whole": true, "all, listed or watched": true}))
	})
})

// contains reports whether a response contains a text, in protobuf or in JSON, where the content of Secrets is base64.
func (e *exchange) contains(text string) bool {
	answer := e.answer.String()
	return strings.Contains(answer, text) || strings.Contains(answer, base64.StdEncoding.EncodeToString([]byte(text)))
}
