// Command pause holds the namespaces of a pod open, in the cluster that hack/cluster.sh starts on a bare machine.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
	<-ended
}
