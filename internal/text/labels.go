package text

// maxLabels limits the labels of one object together, in bytes. Kubernetes limits the size of each label but not their number. The
// labels of one ConsumerQueue can be as large as an object in etcd, and a list contains the labels of all.
const maxLabels = 2 << 10

// AreLabelsSmall reports whether Warren caches the labels of an object and shows them in lists.
func AreLabelsSmall(labels map[string]string) bool {
	size := 0
	for name, value := range labels {
		size += len(name) + len(value)
	}
	return size <= maxLabels
}
