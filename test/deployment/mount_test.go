package deployment

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// secretMount is a directory with the content of a Secret, like a mount of the kubelet.
type secretMount struct {
	cluster *cluster
	secret  client.ObjectKey
	folder  string
}

// mountSecrets creates the mounts of the Deployment's container, by path.
func mountSecrets(c *cluster, deployment *appsv1.Deployment) map[string]*secretMount {
	GinkgoHelper()
	mounts := map[string]*secretMount{}
	pod := deployment.Spec.Template.Spec
	for _, mount := range pod.Containers[0].VolumeMounts {
		for _, volume := range pod.Volumes {
			if volume.Name != mount.Name {
				continue
			}
			Expect(volume.Secret).NotTo(BeNil(), "volume %s: this test knows Secrets alone", volume.Name)
			made := &secretMount{
				cluster: c, folder: GinkgoT().TempDir(),
				secret: client.ObjectKey{Namespace: deployment.Namespace, Name: volume.Secret.SecretName},
			}
			made.refresh()
			mounts[mount.MountPath] = made
		}
	}
	return mounts
}

// refresh updates the content. As in a pod, files are links into a directory that is replaced atomically.
func (s *secretMount) refresh() {
	GinkgoHelper()
	secret := &corev1.Secret{}
	Expect(s.cluster.Get(ctx(), s.secret, secret)).To(Succeed())
	version, err := os.MkdirTemp(s.folder, "..version-")
	Expect(err).NotTo(HaveOccurred())
	data := filepath.Join(s.folder, "..data")
	for name, content := range secret.Data {
		Expect(os.WriteFile(filepath.Join(version, name), content, 0o600)).To(Succeed())
		if _, err := os.Lstat(filepath.Join(s.folder, name)); os.IsNotExist(err) {
			Expect(os.Symlink(filepath.Join("..data", name), filepath.Join(s.folder, name))).To(Succeed())
		}
	}
	Expect(os.Symlink(version, data+".new")).To(Succeed())
	Expect(os.Rename(data+".new", data)).To(Succeed())
}
