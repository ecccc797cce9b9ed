// The renderer of Helm, as `helm template` uses it: a chart's manifests on standard output.
//
// Values are checked against the chart's schema. Usage: helm CHART RELEASE NAMESPACE, with values as YAML on standard input.
package main

import (
	"fmt"
	"io"
	"os"
	"path"
	"sort"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

func main() {
	if err := render(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func render(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("usage: helm CHART RELEASE NAMESPACE < VALUES")
	}
	chart, err := loader.Load(args[0])
	if err != nil {
		return err
	}
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	values, err := chartutil.ReadValues(text)
	if err != nil {
		return err
	}
	release := chartutil.ReleaseOptions{Name: args[1], Namespace: args[2], Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		return err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if strings.TrimSpace(files[name]) == "" || path.Ext(name) != ".yaml" {
			continue
		}
		fmt.Printf("---\n# Source: %s\n%s\n", name, strings.TrimSpace(files[name]))
	}
	return nil
}
