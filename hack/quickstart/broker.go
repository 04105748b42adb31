package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// vhost is the virtual host of the tour; it is made anew each time.
const vhost = "quickstart"

// broker is a RabbitMQ as a person would look at it, without Warren.
type broker struct {
	amqp, management   string // without user and password
	username, password string
}

func brokerFromEnvironment() (*broker, error) {
	entries := strings.Fields(os.Getenv("WARREN_TEST_BROKERS"))
	if len(entries) == 0 {
		return nil, errors.New("WARREN_TEST_BROKERS names no broker: run this by \"make run\"")
	}
	first, second, _ := strings.Cut(entries[0], ",")
	address, err := url.Parse(first)
	if err != nil {
		return nil, errors.New("WARREN_TEST_BROKERS: want amqp://user:password@host:port,http://user:password@host:port")
	}
	management, err := url.Parse(second)
	if err != nil || management.User == nil {
		return nil, errors.New("WARREN_TEST_BROKERS: want amqp://user:password@host:port,http://user:password@host:port")
	}
	found := &broker{username: management.User.Username()}
	found.password, _ = management.User.Password()
	address.User, management.User, address.Path = nil, nil, ""
	found.amqp, found.management = address.String(), strings.TrimSuffix(management.String(), "/")
	return found, nil
}

// call asks the management API. A result that is nil is not read.
func (b *broker) call(ctx context.Context, method, path string, result any) error {
	request, err := http.NewRequestWithContext(ctx, method, b.management+"/api/"+path, nil)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	request.SetBasicAuth(b.username, b.password)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s: %s", method, path, response.Status)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(body, result); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

func (b *broker) freshVHost(ctx context.Context) error {
	_ = b.call(ctx, http.MethodDelete, "vhosts/"+vhost, nil) // there is none at the first time
	return b.call(ctx, http.MethodPut, "vhosts/"+vhost, nil)
}

type queue struct {
	Name      string         `json:"name"`
	Arguments map[string]any `json:"arguments"`
}

type definitions struct {
	Queues    []queue `json:"queues"`
	Exchanges []struct {
		Name string `json:"name"`
		Type string `json:"type"`
	} `json:"exchanges"`
	Bindings []struct {
		Source      string `json:"source"`
		Destination string `json:"destination"`
	} `json:"bindings"`
}

func (b *broker) definitions(ctx context.Context) (definitions, error) {
	found := definitions{}
	return found, b.call(ctx, http.MethodGet, "definitions/"+vhost, &found)
}

func (b *broker) deleteQueue(ctx context.Context, name string) error {
	return b.call(ctx, http.MethodDelete, "queues/"+vhost+"/"+url.PathEscape(name), nil)
}

// failToConsume publishes messages to a queue and rejects each of them, as a consumer does that cannot handle them.
func (b *broker) failToConsume(queue string, bodies ...string) error {
	connection, err := amqp.DialConfig(b.amqp, amqp.Config{
		SASL: []amqp.Authentication{&amqp.PlainAuth{Username: b.username, Password: b.password}}, Vhost: vhost, Heartbeat: 10 * time.Second,
	})
	if err != nil {
		return fmt.Errorf("connect to the broker: %w", err)
	}
	defer func() { _ = connection.Close() }()
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	messages, err := channel.Consume(queue, "", false, false, false, false, nil)
	for _, body := range bodies {
		if err == nil {
			err = channel.Publish("", queue, true, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)})
		}
	}
	for range bodies {
		if err == nil {
			message := <-messages
			err = message.Reject(false)
		}
	}
	if err != nil {
		return fmt.Errorf("consume from queue %q: %w", queue, err)
	}
	return nil
}

// messages is how many messages of a queue are ready.
func (b *broker) messages(ctx context.Context, name string) (int, error) {
	found := struct {
		Ready int `json:"messages_ready"`
	}{}
	return found.Ready, b.call(ctx, http.MethodGet, "queues/"+vhost+"/"+url.PathEscape(name), &found)
}

// uri leads to the vhost of the tour. It shows no password but the one that every RabbitMQ begins with.
func (b *broker) uri() string {
	credentials := "USER:PASSWORD"
	if b.username == "guest" && b.password == "guest" {
		credentials = "guest:guest"
	}
	return strings.Replace(b.amqp, "://", "://"+credentials+"@", 1) + "/" + vhost
}
