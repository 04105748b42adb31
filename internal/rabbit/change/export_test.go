package change

import "github.com/warren-mq/warren/internal/topology"

// QueueFrame and BindingFrame return how many bytes the frame of a declaration or binding takes.
func QueueFrame(queue topology.Queue) int { return frameSize(declareQueue(queue)) }

func BindingFrame(binding topology.Binding) int { return frameSize(bind(binding)) }

func frameSize(o operation) int { return frameOverhead + o.overhead() + tableSize(o.arguments) }
