// Command real is the real Kubernetes control plane in one program: etcd, kube-apiserver, kube-controller-manager and
// kube-scheduler. It also contains oracles and two helpers. The oracles run parts of the real scheduler: its plugins, on
// a cluster that the request describes, and its evaluation of the CEL expressions that select devices. The helpers print
// the fields of API types and a key for signing service account tokens.
//
// The base name of the program, or otherwise its first argument, selects the role.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// roles maps the name of a component to its main function. A main function reads os.Args as the component itself would,
// and returns the exit status.
var roles = map[string]func() int{
	"etcd":                    runEtcd,
	"kube-apiserver":          runAPIServer,
	"kube-controller-manager": runControllerManager,
	"kube-scheduler":          runScheduler,
	"verdicts":                runVerdicts,
	"service-account-key":     runServiceAccountKey,
	"types":                   runTypes,
	"selectors":               runSelectors,
}

func main() {
	role, ok := roles[filepath.Base(os.Args[0])]
	if !ok && len(os.Args) > 1 {
		if role, ok = roles[os.Args[1]]; ok {
			os.Args = os.Args[1:]
		}
	}
	if !ok {
		names := make([]string, 0, len(roles))
		for name := range roles {
			names = append(names, name)
		}
		sort.Strings(names)
		fmt.Fprintf(os.Stderr, "the first argument, or the name of this program, must be one of: %s\n", strings.Join(names, ", "))
		os.Exit(2)
	}
	endWithStdin()
	os.Exit(role())
}
