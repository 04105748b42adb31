package brokerconnection

import (
	"net/url"
	"strings"
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit"
)

// FuzzConnectionString checks that a percent-encoded password is read unchanged. An unencoded password may be refused or read.
// The password never shows.
func FuzzConnectionString(f *testing.F) {
	for _, secret := range []string{
		controllertest.Password, "p@ss/w%rd?#:", "a@b#" + controllertest.Password, "12/" + controllertest.Password, "100%" + controllertest.Password, controllertest.Password + "@", ":" + controllertest.Password, `"` + controllertest.Password + `\`,
		" " + controllertest.Password + "\n", "päßwörd-ü", controllertest.Password + "\x00", "[" + controllertest.Password + "]", "@mq:5672/" + controllertest.Password,
	} {
		f.Add("bob", secret)
		f.Add(secret, "another-password")
	}
	f.Fuzz(func(t *testing.T, username, secret string) {
		encoded, err := fromURI("amqp://" + url.UserPassword(username, secret).String() + "@mq:5672/%2F")
		if err == nil && (encoded.Username != username || encoded.Password != secret || encoded.AMQPURI != "amqp://mq:5672") {
			t.Errorf("%q and %q are read as %q and %q", username, secret, encoded.Username, encoded.Password)
		}
		if err != nil && username != "" && secret != "" {
			t.Errorf("%q and %q, encoded: %v", username, secret, err)
		}
		plain, err := fromURI("amqp://" + username + ":" + secret + "@mq:5672/")
		if len(secret) < 8 || strings.Contains("amqp://mq:5672 http://mq:15672 user "+username, secret) {
			return // the text contains the secret by chance
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("the error shows the password: %v", err)
		}
		for _, text := range []string{plain.AMQPURI, plain.ManagementURI, plain.String()} {
			if strings.Contains(text, secret) {
				t.Errorf("%q shows the password", text)
			}
		}
	})
}

func fromURI(uri string) (rabbit.Config, error) {
	config, err := configFromSecret(v1alpha1.BrokerConnectionSpec{VHost: "/", ResyncInterval: "30s"}, "broker",
		map[string][]byte{"connection_string": []byte(uri)})
	if err != nil {
		return rabbit.Config{}, err
	}
	return config, config.Validate()
}
