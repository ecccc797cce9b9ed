// Command yaml reads and writes YAML with the library that kubectl and kube-apiserver use.
//
// Each line of standard input is a JSON string, and each line of standard output is the answer to it. With the argument
// "write", the string contains JSON, and the answer is a JSON string with the YAML that kubectl prints for it. With
// "read", the string contains YAML, and the answer is the JSON that kube-apiserver would read from it, or null if
// kube-apiserver would reject it.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

func main() {
	roles := map[string]func(string) string{"read": read, "write": write}
	var answer func(string) string
	if len(os.Args) == 2 {
		answer = roles[os.Args[1]]
	}
	if answer == nil {
		fmt.Fprintln(os.Stderr, "the only argument must be read or write")
		os.Exit(2)
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var text string
		if err := json.Unmarshal(lines.Bytes(), &text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		fmt.Fprintln(out, answer(text))
	}
}

func read(text string) string {
	object, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return "null"
	}
	return string(object)
}

func write(text string) string {
	var object any
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		return "null"
	}
	written, err := yaml.Marshal(object)
	if err != nil {
		return "null"
	}
	quoted, _ := json.Marshal(string(written))
	return string(quoted)
}
