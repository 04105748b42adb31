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

// All that the manager and the API server say to each other passes the gate: what does not pass there, the manager does
// not know.
var _ = Describe("Secrets", func() {
	It("are read one by one, when a BrokerConnection names them; of all others only metadata reaches the manager", func() {
		const content = "what is in a Secret that nobody names"
		s := beginShift(whole, "")
		s.create(&corev1.Secret{StringData: map[string]string{"password": content}}, "nobodys")
		s.work()
		Expect(s.refused()).To(BeEmpty())

		read := map[string]bool{}
		for _, passed := range s.gate.all() {
			folder, name := path.Split(passed.url.Path)
			switch {
			case strings.HasSuffix(folder, "/secrets/"):
				Expect(passed.method).To(Equal(http.MethodGet))
				Expect(name).To(Equal("rabbitmq"))
				read["one, whole"] = read["one, whole"] || passed.holds(s.user.Password)
			case name == "secrets":
				Expect(passed.method).To(Equal(http.MethodGet))
				read["all, listed or watched"] = read["all, listed or watched"] || passed.holds("nobodys")
				fallthrough
			default:
				Expect(passed.holds(content) || passed.holds(s.user.Password)).To(BeFalse(), "%s %s", passed.method, passed.url)
			}
		}
		// Otherwise the gate would have seen nothing, and proved nothing.
		Expect(read).To(Equal(map[string]bool{"one, whole": true, "all, listed or watched": true}))
	})
})

// holds says whether a text is part of an answer, be that protobuf or JSON, in which the content of Secrets is base64.
func (e *exchange) holds(text string) bool {
	answer := e.answer.String()
	return strings.Contains(answer, text) || strings.Contains(answer, base64.StdEncoding.EncodeToString([]byte(text)))
}
