package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// broker is a RabbitMQ of its own, with nothing else in it.
type broker struct {
	folder             string
	amqp, management   string // without user and password
	username, password string
	version, erlang    string
	pid                int // the process above all others of the broker
}

func startBroker(ctx context.Context, folder string, tick time.Duration) (*broker, error) {
	b := &broker{folder: folder}
	output, err := b.script("start", "newest")
	if err != nil {
		return nil, err
	}
	if err := b.prepare(ctx, output, tick); err != nil {
		b.remove()
		return nil, err
	}
	return b, nil
}

// prepare finds out where the broker is, lets it take half of the machine's memory, for the brokers of the tests have less than
// thousands of queues need, and sets the tick of the quorum queues that are declared from then on.
func (b *broker) prepare(ctx context.Context, listens string, tick time.Duration) error {
	first, second, _ := strings.Cut(listens, ",")
	over, err := url.Parse(first)
	if err != nil {
		return fmt.Errorf("where the broker listens: %w", err)
	}
	management, err := url.Parse(second)
	if err != nil || management.User == nil {
		return fmt.Errorf("hack/brokers.sh private start printed no management URI with a user")
	}
	b.username = management.User.Username()
	b.password, _ = management.User.Password()
	over.User, management.User = nil, nil
	b.amqp, b.management = over.String(), management.String()
	pid, err := b.script("pid")
	if err != nil {
		return err
	}
	if b.pid, err = strconv.Atoi(pid); err != nil {
		return fmt.Errorf("the broker's process id: %w", err)
	}
	memory, err := machineMemory()
	if err != nil {
		return err
	}
	if err := b.eval(fmt.Sprintf("vm_memory_monitor:set_vm_memory_high_watermark({absolute,%d}).", memory/2)); err != nil {
		return err
	}
	if err := b.eval(fmt.Sprintf("application:set_env(rabbit, quorum_tick_interval, %d).", tick.Milliseconds())); err != nil {
		return err
	}
	overview := struct {
		Version string `json:"rabbitmq_version"`
		Erlang  string `json:"erlang_version"`
	}{}
	err = b.call(ctx, http.MethodGet, "overview", &overview)
	b.version, b.erlang = overview.Version, overview.Erlang
	return err
}

// remove ends the broker and removes what it wrote.
func (b *broker) remove() {
	if _, err := b.script("remove"); err != nil {
		progress("%v", err)
	}
}

// eval has the broker evaluate an Erlang expression.
func (b *broker) eval(expression string) error {
	_, err := b.script("eval", expression)
	return err
}

// script runs to its end after an interrupt, too: otherwise a broker could be left behind.
func (b *broker) script(action string, more ...string) (string, error) {
	command := exec.Command("hack/brokers.sh", append([]string{"private", action, b.folder}, more...)...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var trouble bytes.Buffer
	command.Stderr = &trouble
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("hack/brokers.sh private %s: %w\n%s", action, err, trouble.String())
	}
	return strings.TrimSpace(string(output)), nil
}

// call makes one request of the management API. An answer is read into the result unless that is nil.
func (b *broker) call(ctx context.Context, method, path string, result any) error {
	request, err := http.NewRequestWithContext(ctx, method, b.management+"/api/"+path, http.NoBody)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	request.SetBasicAuth(b.username, b.password)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s: %s", method, path, response.Status)
	}
	if result == nil {
		return nil
	}
	if err := json.NewDecoder(response.Body).Decode(result); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// countQueues is how many queues the broker has, without those that the manager has for itself and that end with its connection.
func (b *broker) countQueues(ctx context.Context) (int, error) {
	var queues []struct{ Exclusive bool }
	err := b.call(ctx, http.MethodGet, "queues/%2F?disable_stats=true&columns=name,exclusive", &queues)
	count := 0
	for _, queue := range queues {
		if !queue.Exclusive {
			count++
		}
	}
	return count, err
}

// connect opens an AMQP connection to a vhost.
func (b *broker) connect(vhost string) (*amqp.Connection, error) {
	connection, err := amqp.DialConfig(b.amqp, amqp.Config{
		SASL:  []amqp.Authentication{&amqp.PlainAuth{Username: b.username, Password: b.password}},
		Vhost: vhost, Heartbeat: 10 * time.Second, Locale: "en_US", Properties: amqp.Table{"connection_name": "bench"},
	})
	if err != nil {
		return nil, fmt.Errorf("connect to vhost %q: %w", vhost, err)
	}
	return connection, nil
}

// checkEventExchange fails unless the exchange of rabbitmq_event_exchange is there, or is not, as it should be.
func (b *broker) checkEventExchange(ctx context.Context, there bool) error {
	var exchanges []struct{ Name string }
	if err := b.call(ctx, http.MethodGet, "exchanges/%2F?disable_stats=true&columns=name", &exchanges); err != nil {
		return err
	}
	found := slices.ContainsFunc(exchanges, func(exchange struct{ Name string }) bool { return exchange.Name == "amq.rabbitmq.event" })
	if found != there {
		return fmt.Errorf("exchange amq.rabbitmq.event is there: %t, and should be: %t", found, there)
	}
	return nil
}

// closeConnections closes the AMQP connections whose clients call them by a name that begins like this: at least one, which the broker
// may list some seconds after it was opened.
func (b *broker) closeConnections(ctx context.Context, prefix string) error {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		var all []struct {
			Name   string
			Client string `json:"user_provided_name"`
		}
		if err := b.call(ctx, http.MethodGet, "connections?columns=name,user_provided_name", &all); err != nil {
			return err
		}
		closed := 0
		for _, connection := range all {
			if !strings.HasPrefix(connection.Client, prefix) {
				continue
			}
			if err := b.call(ctx, http.MethodDelete, "connections/"+url.PathEscape(connection.Name), nil); err != nil {
				return err
			}
			closed++
		}
		if closed > 0 {
			return nil
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
	return fmt.Errorf("the broker lists no connection %q", prefix)
}
