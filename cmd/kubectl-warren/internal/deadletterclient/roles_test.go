package deadletterclient

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// No role here is a built-in role, which can read and write Secrets. A user who can create pods in the namespace gets a token of
// each ServiceAccount there.
func TestNoDocumentBindsABuiltInRoleToAServiceAccount(t *testing.T) {
	t.Parallel()
	binding := regexp.MustCompile(`--clusterrole[= ](edit|admin|cluster-admin)\b.*--serviceaccount`)
	docs, read := os.DirFS("../../../../docs"), 0
	err := fs.WalkDir(docs, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".md") {
			return err
		}
		text, err := fs.ReadFile(docs, path)
		read++
		for _, found := range binding.FindAllString(string(text), -1) {
			t.Errorf("docs/%s: %s", path, found)
		}
		return err
	})
	if err != nil || read == 0 {
		t.Errorf("read %d documents: %v", read, err)
	}
	for subresource, name := range role {
		if !strings.HasPrefix(name, "deadletterqueue-") {
			t.Errorf("%q needs the role %s", subresource, name)
		}
	}
}
