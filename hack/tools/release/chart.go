package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	helmregistry "helm.sh/helm/v4/pkg/registry"
	"sigs.k8s.io/yaml"
)

// packageChart writes warren-VERSION.tgz, the OCI layout chart/ with the same archive, and chart.digest.
func (r release) packageChart(folder string) error {
	digest, err := os.ReadFile(filepath.Join(r.output, "image.digest"))
	if err != nil {
		return fmt.Errorf("read the digest of the image (make image writes it): %w", err)
	}
	packed, err := loader.Load(folder)
	if err != nil {
		return err
	}
	if err := r.pin(packed, strings.TrimSpace(string(digest))); err != nil {
		return err
	}
	date(packed, r.created())
	archive, err := chartutil.Save(packed, r.output)
	if err != nil {
		return err
	}
	return r.writeLayout(archive)
}

// pin sets the version of the chart, and the image by its digest.
func (r release) pin(packed *chart.Chart, digest string) error {
	repository := strings.SplitN(r.registry, "/", 2)
	if len(repository) != 2 {
		return fmt.Errorf("-registry %q does not consist of a host and a path", r.registry)
	}
	values := valuesFile(packed)
	if values == nil {
		return errors.New("the chart has no values.yaml")
	}
	for _, set := range []struct{ from, to string }{
		{"\n  digest: \"\"\n", "\n  digest: " + digest + "\n"},
		{"\n  registry: ghcr.io\n", "\n  registry: " + repository[0] + "\n"},
		{"\n  repository: warren-mq/warren\n", "\n  repository: " + repository[1] + "/warren\n"},
	} {
		if bytes.Count(values.Data, []byte(set.from)) != 1 {
			return fmt.Errorf("values.yaml does not contain %q exactly once", strings.TrimSpace(set.from))
		}
		values.Data = bytes.Replace(values.Data, []byte(set.from), []byte(set.to), 1)
	}
	packed.Metadata.Version, packed.Metadata.AppVersion = r.plain(), r.version
	return r.annotate(packed.Metadata, digest)
}

// annotate adds annotations for Artifact Hub: the changes, the image, and whether this is a prerelease.
func (r release) annotate(of *chart.Metadata, digest string) error {
	changelog, err := os.ReadFile(r.changelog)
	if err != nil {
		return err
	}
	notes, err := section(string(changelog), r.plain())
	if err != nil {
		return err
	}
	image := []map[string]any{{
		"name": "warren", "image": r.registry + "/warren@" + digest, "platforms": []string{"linux/amd64", "linux/arm64"},
	}}
	for annotation, content := range map[string]any{"artifacthub.io/changes": changes(notes), "artifacthub.io/images": image} {
		text, err := yaml.Marshal(content)
		if err != nil {
			return err
		}
		of.Annotations[annotation] = string(text)
	}
	of.Annotations["artifacthub.io/prerelease"] = strconv.FormatBool(strings.Contains(r.version, "-"))
	return nil
}

func valuesFile(of *chart.Chart) *common.File {
	for _, file := range of.Raw {
		if file.Name == chartutil.ValuesfileName {
			return file
		}
	}
	return nil
}

// date sets the modification time of each file, which Helm writes into the archive.
func date(packed *chart.Chart, created time.Time) {
	packed.ModTime, packed.SchemaModTime = created, created
	for _, files := range [][]*common.File{packed.Raw, packed.Templates, packed.Files} {
		for _, file := range files {
			file.ModTime = created
		}
	}
}

// writeLayout pushes the archive with Helm to an in-memory registry, so that the layout is exactly what `helm push` produces.
func (r release) writeLayout(archive string) error {
	content, err := os.ReadFile(archive)
	if err != nil {
		return err
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	client, err := helmregistry.NewClient(helmregistry.ClientOptPlainHTTP())
	if err != nil {
		return err
	}
	tag := strings.TrimPrefix(server.URL, "http://") + "/warren:" + r.plain()
	if _, err := client.Push(content, tag, helmregistry.PushOptCreationTime(r.created().Format(time.RFC3339))); err != nil {
		return fmt.Errorf("push the chart to the in-memory registry: %w", err)
	}
	reference, err := name.ParseReference(tag)
	if err != nil {
		return err
	}
	pushed, err := remote.Image(reference)
	if err != nil {
		return err
	}
	folder := filepath.Join(r.output, "chart")
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	written, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	if err := written.AppendImage(pushed); err != nil {
		return fmt.Errorf("write OCI layout: %w", err)
	}
	digest, err := pushed.Digest()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.output, "chart.digest"), []byte(digest.String()+"\n"), 0o644)
}
