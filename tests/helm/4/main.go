// Command helm is the real Helm 4.
package main

import (
	"errors"
	"fmt"
	"os"

	_ "k8s.io/client-go/plugin/pkg/client/auth"

	"helm.sh/helm/v4/pkg/cmd"
	"helm.sh/helm/v4/pkg/kube"
)

func main() {
	os.Exit(run())
}

func run() int {
	// By default, the field manager is the name of the executable file.
	kube.ManagedFieldsManager = "helm"
	root, err := cmd.NewRootCmd(os.Stdout, os.Args[1:], cmd.SetupLogging)
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return 1
	}
	err = root.Execute()
	var failure cmd.CommandError
	switch {
	case errors.As(err, &failure):
		return failure.ExitCode
	case err != nil:
		return 1
	}
	return 0
}
