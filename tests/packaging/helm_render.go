// SPDX-License-Identifier: Apache-2.0

// Renders a chart as `helm template` does, by the same template engine and the same functions, for
// Debian has no helm: what the charts of this tree use of it, and no more.
//
//	helm_render CHART RELEASE NAMESPACE [VALUES]   (a file of YAML or JSON, over those of the chart)
//
// Writes the documents of all templates, then, after a line "# NOTES", what a user is told.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "helm_render:", err)
		os.Exit(1)
	}
}

func readYaml(file string) map[string]interface{} {
	text, err := os.ReadFile(file)
	fail(err)
	out := map[string]interface{}{}
	fail(yaml.Unmarshal(text, &out))
	return out
}

// A user's values replace the chart's, maps member by member; null removes one.
func merge(base, over map[string]interface{}) map[string]interface{} {
	for name, value := range over {
		inner, isMap := value.(map[string]interface{})
		below, wasMap := base[name].(map[string]interface{})
		if value == nil {
			delete(base, name)
		} else if isMap && wasMap {
			base[name] = merge(below, inner)
		} else {
			base[name] = value
		}
	}
	return base
}

func toYaml(value interface{}) string {
	text, err := yaml.Marshal(value)
	if err != nil {
		return "" // as helm does
	}
	return strings.TrimSuffix(string(text), "\n")
}

func functions(t *template.Template) template.FuncMap {
	funcs := sprig.TxtFuncMap()
	delete(funcs, "env")
	delete(funcs, "expandenv")
	funcs["toYaml"] = toYaml
	funcs["include"] = func(name string, data interface{}) (string, error) {
		var out bytes.Buffer
		err := t.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	funcs["required"] = func(why string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return value, fmt.Errorf("%s", why)
		}
		return value, nil
	}
	return funcs
}

func chartOf(file string) map[string]interface{} {
	out := map[string]interface{}{}
	for name, value := range readYaml(file) {
		out[strings.ToUpper(name[:1])+name[1:]] = value // as the fields of helm's own type are called
	}
	return out
}

func main() {
	if len(os.Args) < 4 {
		fail(fmt.Errorf("usage: helm_render CHART RELEASE NAMESPACE [VALUES]"))
	}
	chart, release, namespace := os.Args[1], os.Args[2], os.Args[3]
	values := readYaml(filepath.Join(chart, "values.yaml"))
	if len(os.Args) > 4 {
		values = merge(values, readYaml(os.Args[4]))
	}
	t := template.New("chart").Option("missingkey=zero")
	t.Funcs(functions(t))
	files, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	fail(err)
	sort.Strings(files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		fail(err)
		_, err = t.New(filepath.Base(file)).Parse(string(text))
		fail(err)
	}
	data := map[string]interface{}{
		"Values": values,
		"Chart":  chartOf(filepath.Join(chart, "Chart.yaml")),
		"Release": map[string]interface{}{"Name": release, "Namespace": namespace, "Service": "Helm",
			"IsInstall": true, "IsUpgrade": false, "Revision": 1},
	}
	show := func(file, before string) {
		var out bytes.Buffer
		fail(t.ExecuteTemplate(&out, file, data))
		fmt.Printf("%s\n%s\n", before, strings.ReplaceAll(out.String(), "<no value>", ""))
	}
	for _, file := range files {
		if name := filepath.Base(file); strings.HasSuffix(name, ".yaml") {
			show(name, "---")
		}
	}
	show("NOTES.txt", "# NOTES")
}
