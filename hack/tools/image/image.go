package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// nonRoot is the numeric user ID that runAsNonRoot requires.
const nonRoot = "65532:65532"

// passwd sets the group of the user. The kubelet passes only the user ID, and without this entry the group would be root.
const passwd = "nonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"

// certificateFile is the first file in which Go programs on Linux look for root certificates.
const certificateFile = "etc/ssl/certs/ca-certificates.crt"

// source is what an image is built from besides the binary.
type source struct {
	version, revision string
	created           time.Time
}

// index returns an index of the images for each platform.
func (s source) index(images map[string]v1.Image) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, name := range slices.Sorted(maps.Keys(images)) {
		platform, err := v1.ParsePlatform(name)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: images[name], Descriptor: v1.Descriptor{Platform: platform}})
	}
	return mutate.Annotations(index, s.labels()).(v1.ImageIndex), nil
}

// managerImage returns an image with the certificates, whose layer is the same in most releases, and the manager.
func (s source) managerImage(name, binary string) (v1.Image, error) {
	platform, err := v1.ParsePlatform(name)
	if err != nil {
		return nil, err
	}
	manager, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	return s.image(*platform, file{certificateFile, certificates(), 0o644}, file{"manager", manager, 0o755})
}

// image returns an image with one layer for the user and one for each file. It runs the last file.
func (s source) image(platform v1.Platform, files ...file) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, content := range append([]file{{"etc/passwd", []byte(passwd), 0o644}}, files...) {
		layer, err := content.layer()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", content.name, err)
		}
		if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{
			Created: v1.Time{Time: s.created}, CreatedBy: "COPY /" + content.name,
		}}); err != nil {
			return nil, err
		}
	}
	return s.configure(image, platform, "/"+files[len(files)-1].name)
}

func (s source) configure(image v1.Image, platform v1.Platform, program string) (v1.Image, error) {
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant = platform.OS, platform.Architecture, platform.Variant
	config.Created = v1.Time{Time: s.created}
	config.Config = v1.Config{
		Entrypoint: []string{program},
		Env:        []string{"PATH=/"},
		User:       nonRoot,
		WorkingDir: "/",
		Labels:     s.labels(),
	}
	image, err = mutate.ConfigFile(image, config)
	if err != nil {
		return nil, err
	}
	return mutate.Annotations(image, s.labels()).(v1.Image), nil
}

// labels returns the labels of the OCI specification. The Dockerfile sets the same.
func (s source) labels() map[string]string {
	const home = "https://github.com/warren-mq/warren"
	return map[string]string{
		"org.opencontainers.image.title":         "warren",
		"org.opencontainers.image.description":   "Kubernetes operator for the retry and dead-letter topologies of RabbitMQ consumers",
		"org.opencontainers.image.url":           home,
		"org.opencontainers.image.source":        home,
		"org.opencontainers.image.documentation": home + "/tree/main/docs",
		"org.opencontainers.image.licenses":      "Apache-2.0",
		"org.opencontainers.image.version":       s.version,
		"org.opencontainers.image.revision":      s.revision,
		"org.opencontainers.image.created":       s.created.Format(time.RFC3339),
	}
}

type file struct {
	name    string
	content []byte
	mode    int64
}

// layer returns a layer with the file and its directories. All timestamps are 1970, so the same content is the same layer.
func (f file) layer() (v1.Layer, error) {
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	for _, folder := range folders(f.name) {
		if err := writer.WriteHeader(&tar.Header{
			Name: folder + "/", Typeflag: tar.TypeDir, Mode: 0o755, ModTime: time.Unix(0, 0), Format: tar.FormatPAX,
		}); err != nil {
			return nil, err
		}
	}
	if err := writer.WriteHeader(&tar.Header{
		Name: f.name, Size: int64(len(f.content)), Mode: f.mode, ModTime: time.Unix(0, 0), Format: tar.FormatPAX,
	}); err != nil {
		return nil, err
	}
	if _, err := writer.Write(f.content); err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
}

// folders returns the directories above a file, the outermost first.
func folders(name string) []string {
	var list []string
	for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
		list = append(list, folder)
	}
	slices.Reverse(list)
	return list
}

// certificates returns Mozilla's root certificates, from a module that go.sum pins.
func certificates() []byte {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		// A PEM file cannot express the constraints of some roots, so those are left out.
		if root.Constraint == nil {
			text.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return text.Bytes()
}
