// Command pause keeps the namespaces of a pod alive, in the cluster that hack/cluster.sh starts without Docker.
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
