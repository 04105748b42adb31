package testenv

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Hide returns a text that must not appear outside of messages. A Secret holds it, as it holds the passwords of users.
func (w *World) Hide() string {
	GinkgoHelper()
	hidden := rand.Text()
	Expect(w.Kube.Create(ctx(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, GenerateName: "hidden-"}, StringData: map[string]string{"password": hidden},
	})).To(Succeed())
	return hidden
}

// Spellings returns the forms in which a password may be written. It skips short passwords, because other words contain them.
func Spellings(username, password string) []string {
	if len(password) < 8 {
		return nil
	}
	quoted, _ := json.Marshal(password) // a string can always be encoded
	return []string{
		password, url.QueryEscape(password), url.PathEscape(password), strings.Trim(string(quoted), `"`),
		strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(password)), "="),
		strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(username+":"+password)), "="), // basic authentication
	}
}
