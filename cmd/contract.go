package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// contractCommand is the first argument that has the manager print a contract instead of running.
const contractCommand = "contract"

// printContract prints the contract of a ConsumerQueue in a file, or checks that another file holds that contract.
func printContract(arguments []string, out io.Writer) error {
	flags := flag.NewFlagSet(contractCommand, flag.ContinueOnError)
	file := flags.String("f", "", "The `file` with the ConsumerQueue; - reads standard input.")
	name := flags.String("name", "", "Which ConsumerQueue, if the file has several.")
	rabbitMQ := flags.String("rabbitmq", "", "The `version` of the broker, such as 4.3.")
	virtualHost := flags.String("virtual-host", "/", "The virtual host of the queue.")
	check := flags.String("check", "", "Fail unless this `file` holds the contract, and print nothing.")
	if err := flags.Parse(arguments); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if *file == "" || *rabbitMQ == "" {
		return errors.New("contract: -f and --rabbitmq are needed, such as: contract -f orders.yaml --rabbitmq 4.3")
	}
	version, err := vhost.ParseVersion(*rabbitMQ)
	if err != nil {
		return fmt.Errorf("contract: --rabbitmq: %w", err)
	}
	cq, err := consumerQueueIn(*file, *name)
	if err != nil {
		return fmt.Errorf("contract: %w", err)
	}
	kept, err := topology.ContractOf(cq, *virtualHost, version)
	if err != nil {
		return fmt.Errorf("contract: ConsumerQueue %q: %w", cq.Name, err)
	}
	document, err := json.MarshalIndent(kept, "", "  ")
	if err != nil {
		return fmt.Errorf("contract: %w", err)
	}
	if *check == "" {
		_, err = fmt.Fprintf(out, "%s\n", document)
		return err
	}
	return checkContract(*check, *file, document)
}

// checkContract compares documents as they are written: whoever mounts the file sees fields that Parse would leave out.
func checkContract(path, source string, want []byte) error {
	found, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("contract: %w", err)
	}
	kept, err := contract.Parse(found)
	if err != nil {
		return fmt.Errorf("contract: file %q: %w", path, err)
	}
	got, err := json.MarshalIndent(kept, "", "  ")
	if err != nil {
		return fmt.Errorf("contract: %w", err)
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("contract: file %q is not what %q asks for; write it anew. It should be:\n%s", path, source, want)
	}
	return nil
}

// consumerQueueIn reads the ConsumerQueue of a file, or the one with a name.
func consumerQueueIn(path, name string) (*v1alpha1.ConsumerQueue, error) {
	input := io.Reader(os.Stdin)
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		input = file
	}
	var found []*v1alpha1.ConsumerQueue
	documents := yaml.NewYAMLReader(bufio.NewReader(input))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read %q: %w", path, err)
		}
		cq := &v1alpha1.ConsumerQueue{}
		if err := sigsyaml.Unmarshal(document, &cq.TypeMeta); err != nil {
			return nil, fmt.Errorf("read %q: %w", path, err)
		}
		if cq.GroupVersionKind() != v1alpha1.GroupVersion.WithKind("ConsumerQueue") {
			continue
		}
		if err := sigsyaml.UnmarshalStrict(document, cq); err != nil {
			return nil, fmt.Errorf("read %q: %w", path, err)
		}
		if name == "" || cq.Name == name {
			found = append(found, cq)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0 && name != "":
		return nil, fmt.Errorf("%q has no ConsumerQueue %q", path, name)
	case len(found) == 0:
		return nil, fmt.Errorf("%q has no ConsumerQueue", path)
	}
	return nil, fmt.Errorf("%q has %d ConsumerQueues: say which by --name", path, len(found))
}
