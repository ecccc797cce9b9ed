package main

import (
	"bufio"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

// leaves are types that are not described by their fields.
var leaves = map[string]string{
	"meta.Time":            "Time",
	"meta.MicroTime":       "Time",
	"meta.FieldsV1":        "FieldsV1",
	"resource.Quantity":    "Quantity",
	"intstr.IntOrString":   "IntOrString",
	"runtime.RawExtension": "RawExtension",
}

// scalars are the letters of simple types.
var scalars = map[reflect.Kind]string{
	reflect.String: "s", reflect.Bool: "t", reflect.Int32: "i", reflect.Int64: "l", reflect.Float64: "d",
}

// runTypes prints what the kinds that the arguments name (GROUP.KIND, of version v1) consist of, in the form of
// crates/validation/src/schema.txt.
func runTypes() int {
	wanted := map[string]bool{}
	for _, name := range os.Args[1:] {
		wanted[name] = true
	}
	documents = openapi.GetOpenAPIDefinitions(func(string) spec.Ref { return spec.Ref{} })
	table := typeTable{}
	for kind, of := range scheme.Scheme.AllKnownTypes() {
		if kind.Version == "v1" && wanted[groupName(kind)+"."+kind.Kind] {
			delete(wanted, table.add(of))
		}
	}
	for name := range wanted {
		fmt.Fprintf(os.Stderr, "there is no kind %s in version v1\n", name)
		return 1
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	names := make([]string, 0, len(table))
	for name := range table {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintln(out, strings.TrimSpace(name+" "+strings.Join(table[name], " ")))
	}
	return 0
}

// documents are what OpenAPI says of the types, by their names there.
var documents map[string]common.OpenAPIDefinition

// document is what OpenAPI says of a type; nothing for types that it does not know.
func document(of reflect.Type) spec.Schema {
	if named, ok := reflect.Zero(of).Interface().(interface{ OpenAPIModelName() string }); ok {
		return documents[named.OpenAPIModelName()].Schema
	}
	return spec.Schema{}
}

// said is the text of an extension.
func said(of spec.Schema, extension string) string {
	text, _ := of.Extensions.GetString("x-kubernetes-" + extension)
	return text
}

func groupName(kind schema.GroupVersionKind) string {
	if kind.Group == "" {
		return "core"
	}
	return strings.Split(kind.Group, ".")[0]
}

// typeTable has the fields of types by their names.
type typeTable map[string][]string

// name is the package without its version, and the type.
func name(of reflect.Type) string {
	path := strings.Split(of.PkgPath(), "/")
	last := path[len(path)-1]
	if len(path) > 1 && strings.HasPrefix(last, "v1") {
		last = path[len(path)-2]
	}
	return last + "." + of.Name()
}

// add describes a type and what it consists of, and returns its name.
func (table typeTable) add(of reflect.Type) string {
	known := name(of)
	if leaf, ok := leaves[known]; ok {
		return leaf
	}
	if _, ok := table[known]; ok {
		return known
	}
	table[known] = nil
	if of.Kind() == reflect.Slice {
		// In protobuf the list is a message of its own.
		table[known] = []string{"1:items:!*" + table.element(of.Elem())}
		return known
	}
	document := document(of)
	if said(document, "map-type") == "atomic" {
		table[known] = []string{"@"}
	}
	for index := range of.NumField() {
		if text := table.field(document, of.Field(index)); text != "" {
			table[known] = append(table[known], text)
		}
	}
	return known
}

func (table typeTable) element(of reflect.Type) string {
	switch of.Kind() {
	case reflect.Pointer:
		return table.element(of.Elem())
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return "b"
		}
		return table.add(of)
	case reflect.Struct:
		return table.add(of)
	}
	if scalar, ok := scalars[of.Kind()]; ok {
		return scalar
	}
	panic("no letter for " + of.String())
}

// identity is what tells the elements of a list apart: nothing of a list that is one value, no field of a set.
func identity(list spec.Schema, element reflect.Type) string {
	if said(list, "list-type") == "set" {
		return "[]"
	}
	if said(list, "list-type") != "map" {
		return ""
	}
	keys, _ := list.Extensions.GetStringSlice("x-kubernetes-list-map-keys")
	for index, key := range keys {
		if text, ok := document(element).Properties[key].Default.(string); ok && text != "" {
			keys[index] += "=" + text
		}
	}
	return "[" + strings.Join(keys, ",") + "]"
}

// field describes a field of a type; those that protobuf does not have are empty.
func (table typeTable) field(document spec.Schema, of reflect.StructField) string {
	wire := strings.Split(of.Tag.Get("protobuf"), ",")
	if len(wire) < 2 {
		return ""
	}
	json := strings.Split(of.Tag.Get("json"), ",")
	has := func(option string) bool {
		for _, other := range json[1:] {
			if other == option {
				return true
			}
		}
		return false
	}
	if has("inline") {
		return wire[1] + ":-:^" + table.element(of.Type)
	}
	signs, element, omitted := "", of.Type, has("omitempty")
	isBytes := of.Type.Kind() == reflect.Slice && of.Type.Elem().Kind() == reflect.Uint8
	switch {
	case of.Type.Kind() == reflect.Slice && !isBytes:
		signs, element = "*"+identity(document.Properties[json[0]], of.Type.Elem()), of.Type.Elem()
	case of.Type.Kind() == reflect.Map:
		signs, element = "%", of.Type.Elem()
	}
	letters := table.element(element)
	isStruct := of.Type.Kind() == reflect.Struct
	isScalar := len(letters) == 1 && signs == "" && of.Type.Kind() != reflect.Pointer
	if isScalar && omitted {
		signs = "?"
	}
	isAlways := !omitted && !has("omitzero") || isStruct && !has("omitzero")
	if of.Type.Kind() == reflect.Pointer || isBytes || letters == "RawExtension" || letters == "FieldsV1" {
		isAlways = false
	}
	if said(document.Properties[json[0]], "map-type") == "atomic" {
		signs = "@" + signs
	}
	if isAlways {
		signs = "!" + signs
	}
	for _, name := range document.Required {
		if name == json[0] {
			signs = "+" + signs
		}
	}
	return wire[1] + ":" + json[0] + ":" + signs + letters
}
