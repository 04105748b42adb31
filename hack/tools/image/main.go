// Command image writes the image of the manager as an OCI layout for registries. For each platform it also writes a tar file for
// `docker load`, `ctr images import` and `kind load image-archive`, and a software bill of materials (SBOM, CycloneDX). It needs
// no daemon. The same input produces the same bytes.
//
//	image build [flag…] PLATFORM=BINARY…    such as linux/amd64=bin/linux-amd64/manager
//	image push LAYOUT NAME                   also for the layout of a chart; prints the name with its digest
//	image serve ADDRESS                      an in-memory registry for tests; prints its address
//	image wrap NAME BINARY FILE              an image with only a binary, for tests
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	switch {
	case len(arguments) > 0 && arguments[0] == "build":
		return build(arguments[1:])
	case len(arguments) == 3 && arguments[0] == "push":
		return push(arguments[1], arguments[2])
	case len(arguments) == 2 && arguments[0] == "serve":
		return serve(arguments[1])
	case len(arguments) == 4 && arguments[0] == "wrap":
		return wrap(arguments[1], arguments[2], arguments[3])
	}
	return errors.New("usage: image build [flag…] PLATFORM=BINARY…, image push LAYOUT NAME, image serve ADDRESS, or image wrap NAME BINARY FILE")
}

// build writes image/, image-ARCH.tar, sbom-ARCH.cdx.json and image.digest into the directory of -output.
func build(arguments []string) error {
	var (
		given  source
		epoch  int64
		output string
		tag    string
	)
	flags := flag.NewFlagSet("build", flag.ExitOnError)
	flags.StringVar(&output, "output", "dist", "The folder to write into.")
	flags.StringVar(&tag, "tag", "", "The name of the image, with its tag, in the tar files.")
	flags.StringVar(&given.version, "version", "", "The version of Warren.")
	flags.StringVar(&given.revision, "revision", "", "The commit.")
	flags.Int64Var(&epoch, "epoch", 0, "When the commit was made, in seconds since 1970.")
	_ = flags.Parse(arguments) // exits on an error
	given.created = time.Unix(epoch, 0).UTC()
	reference, err := name.NewTag(tag)
	if err != nil {
		return fmt.Errorf("-tag: %w", err)
	}
	images := map[string]v1.Image{}
	for _, argument := range flags.Args() {
		platform, binary, found := strings.Cut(argument, "=")
		if !found {
			return fmt.Errorf("argument %q is not of the form PLATFORM=BINARY", argument)
		}
		if images[platform], err = given.managerImage(platform, binary); err != nil {
			return err
		}
		architecture := filepath.Base(platform)
		if err := tarball.WriteToFile(filepath.Join(output, "image-"+architecture+".tar"), reference, images[platform]); err != nil {
			return fmt.Errorf("write image of %s: %w", platform, err)
		}
		if err := given.writeBOM(filepath.Join(output, "sbom-"+architecture+".cdx.json"), binary); err != nil {
			return fmt.Errorf("write SBOM of %s: %w", platform, err)
		}
	}
	return given.writeLayout(output, images)
}

func (s source) writeLayout(output string, images map[string]v1.Image) error {
	index, err := s.index(images)
	if err != nil {
		return err
	}
	folder := filepath.Join(output, "image")
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if _, err := layout.Write(folder, index); err != nil {
		return fmt.Errorf("write OCI layout: %w", err)
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(output, "image.digest"), []byte(digest.String()+"\n"), 0o644)
}

func push(folder, tag string) error {
	reference, err := name.NewTag(tag)
	if err != nil {
		return err
	}
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return fmt.Errorf("read OCI layout (make image writes it): %w", err)
	}
	pushed, err := content(index)
	if err != nil {
		return fmt.Errorf("read OCI layout: %w", err)
	}
	digest, err := pushed.Digest()
	if err != nil {
		return err
	}
	if err := remote.Push(reference, pushed, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("push %s: %w", reference, err)
	}
	fmt.Println(reference.Digest(digest.String()))
	return nil
}

// taggable is an artifact that a tag can name: the index of a multi-platform image, or a chart.
type taggable interface {
	remote.Taggable
	Digest() (v1.Hash, error)
}

// content returns the index of a layout, or the only manifest in it for a chart: Helm does not accept an index.
func content(index v1.ImageIndex) (taggable, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) == 1 && manifest.Manifests[0].Platform == nil {
		return index.Image(manifest.Manifests[0].Digest)
	}
	return index, nil
}

// serve runs a registry until the process is killed. It prints the address when the registry is ready.
func serve(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	server := &http.Server{
		Handler:           registry.New(registry.Logger(log.New(io.Discard, "", 0))),
		ReadHeaderTimeout: time.Minute,
	}
	return server.Serve(listener)
}

func wrap(tag, binary, path string) error {
	reference, err := name.NewTag(tag)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	image, err := (source{}).image(
		v1.Platform{OS: "linux", Architecture: runtime.GOARCH}, file{filepath.Base(binary), content, 0o755})
	if err != nil {
		return err
	}
	if err := tarball.WriteToFile(path, reference, image); err != nil {
		return fmt.Errorf("write image of %s: %w", binary, err)
	}
	return nil
}
