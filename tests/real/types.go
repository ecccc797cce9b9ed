package main

import (
	"bufio"
	"fmt"
	"os"
	"reflect"
	"slices"
	"sort"
	"strings"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

// leaves are the types whose fields are not listed, with their names in the table.
var leaves = map[string]string{
	"meta.Time":            "Time",
	"meta.MicroTime":       "Time",
	"meta.FieldsV1":        "FieldsV1",
	"resource.Quantity":    "Quantity",
	"intstr.IntOrString":   "IntOrString",
	"runtime.RawExtension": "RawExtension",
}

// scalars are the letters for simple types in the table.
var scalars = map[reflect.Kind]string{
	reflect.String: "s", reflect.Bool: "t", reflect.Int32: "i", reflect.Int64: "l", reflect.Float64: "d",
}

// unnamed are the versions that the names of types do not include. The first one that has a kind counts.
var unnamed = []string{"v1", "v1beta2"}

// runTypes prints the fields of the kinds that the arguments name (GROUP.KIND for a kind of an unnamed version, otherwise
// GROUPVERSION.KIND), and of the types that these kinds contain, in the format of crates/validation/src/schema.txt.
func runTypes() int {
	wanted := map[string]bool{}
	for _, name := range os.Args[1:] {
		wanted[name] = true
	}
	documents = openapi.GetOpenAPIDefinitions(func(string) spec.Ref { return spec.Ref{} })
	table := typeTable{}
	for _, version := range append(unnamed, "v1beta1") {
		for kind, of := range scheme.Scheme.AllKnownTypes() {
			if kind.Version == version && wanted[name(of)] {
				delete(wanted, table.add(of))
			}
		}
	}
	for name := range wanted {
		fmt.Fprintf(os.Stderr, "there is no kind %s\n", name)
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

// documents are the OpenAPI definitions of types, by their names in OpenAPI.
var documents map[string]common.OpenAPIDefinition

// document returns the OpenAPI schema of a type; an empty schema if OpenAPI does not define the type.
func document(of reflect.Type) spec.Schema {
	if named, ok := reflect.Zero(of).Interface().(interface{ OpenAPIModelName() string }); ok {
		return documents[named.OpenAPIModelName()].Schema
	}
	return spec.Schema{}
}

// said returns the text of the schema's extension x-kubernetes-EXTENSION; empty if there is none.
func said(of spec.Schema, extension string) string {
	text, _ := of.Extensions.GetString("x-kubernetes-" + extension)
	return text
}

// typeTable holds the formatted fields of each type, by the type's name.
type typeTable map[string][]string

// name returns PACKAGE.TYPE, where PACKAGE includes the version unless it is one of the unnamed versions.
func name(of reflect.Type) string {
	path := strings.Split(of.PkgPath(), "/")
	last := path[len(path)-1]
	switch {
	case len(path) > 1 && slices.Contains(unnamed, last):
		last = path[len(path)-2]
	case len(path) > 1 && strings.HasPrefix(last, "v1"):
		last = path[len(path)-2] + last
	}
	return last + "." + of.Name()
}

// add adds a type and the types of its fields to the table, and returns the type's name.
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
		// In protobuf, a list type is a message with the field `items`.
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

// identity returns the fields that identify the elements of a list: [KEY,...] for a map, [] for a set, and an empty
// string for a list that is owned as a whole.
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

// field formats a field of a type. It returns an empty string for a field that protobuf does not have.
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
